//! `ValidateVolumeCapabilities`: whether a volume is what the caller takes it for.

use blockd_client::vocabulary::{VolumeContext, VolumeId};

use super::Operations;
use crate::blocks::Blocks;
use crate::error::OperationError;
use crate::hosting::HostingVolumes;
use crate::params::Parameters;

/// What to compare a volume with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidateVolume {
    /// The volume.
    pub id: VolumeId,
    /// Why the capabilities cannot be had, if they cannot.
    pub refused: Option<String>,
    /// What the class asked for, if given.
    pub parameters: Option<Parameters>,
    /// The volume's context, if given.
    pub context: Option<VolumeContext>,
}

impl<H: HostingVolumes, B: Blocks> Operations<H, B> {
    /// Compares; the answer is what does not fit, if anything.
    ///
    /// # Errors
    ///
    /// [`OperationError::NotFound`].
    pub async fn validate(self, request: ValidateVolume) -> Result<Option<String>, OperationError> {
        let id = request.id;
        let Some((_, found)) = self.find(&id).await? else {
            return Err(OperationError::NotFound { id });
        };
        if request.refused.is_some() {
            return Ok(request.refused);
        }
        if let Some(context) = request.context
            && (context.gbid != found.gbid || context.volume_id() != id)
        {
            return Ok(Some("volume_context is that of another volume".to_owned()));
        }
        if let Some(parameters) = request.parameters {
            if usize::try_from(found.ha) != Ok(parameters.ha) {
                return Ok(Some(format!("the volume has hacount {}", found.ha)));
            }
            if found.password.is_some() != parameters.auth {
                let is = found.password.is_some();
                return Ok(Some(format!("the volume has chapauthenabled {is}")));
            }
        }
        Ok(None)
    }
}
