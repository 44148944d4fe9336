//! The CSI controller for gluster-block: hosting volumes, placement, blocks and publication.
