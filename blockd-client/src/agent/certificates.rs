//! An authority for tests, and the certificates it signs, as files.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::string::Ia5String;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate of it: its key, and the authority's certificate, in PEM.
#[derive(Debug, Clone)]
pub(crate) struct Issued {
    pub(crate) ca: String,
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// A certificate for 127.0.0.1.
    pub(crate) fn server(&self) -> Issued {
        self.issue(vec![SanType::IpAddress([127, 0, 0, 1].into())])
    }

    /// A certificate with these URIs.
    pub(crate) fn client(&self, uris: &[&str]) -> Issued {
        let uri = |uri: &&str| SanType::URI(Ia5String::try_from(*uri).unwrap());
        self.issue(uris.iter().map(uri).collect())
    }

    fn issue(&self, names: Vec<SanType>) -> Issued {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = names;
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.0).unwrap();
        Issued {
            ca: self.0.pem(),
            cert: cert.pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Issued {
    /// Puts the three files in a folder: authority, certificate, key.
    pub(crate) fn write(&self, folder: &Path) -> [PathBuf; 3] {
        let files = [
            ("ca.pem", &self.ca),
            ("cert.pem", &self.cert),
            ("key.pem", &self.key),
        ];
        files.map(|(name, text)| {
            let path = folder.join(name);
            fs::write(&path, text).unwrap();
            path
        })
    }
}
