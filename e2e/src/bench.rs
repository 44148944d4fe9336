//! The benchmark: what the driver costs beside the same work done by hand, in one run on one lab.
//!
//! Nothing here judges a figure. A lab is slow and noisy, so a time means something only beside the time that the bare
//! commands took on the same guests, minutes earlier or later; [`figures`] puts the two side by side.

pub mod figures;
pub mod hand;
pub mod machine;
pub mod report;
pub mod usage;
