//! A simulator of heketi: its REST interface, its one-shot queue, its book-keeping, and its ways to fail.
