//! Mutual TLS 1.3 from three files that may change while the agent runs.
//!
//! The files are read for each connection: they are small, and there is no moment at which an exchanged certificate does not
//! count yet. Files that cannot be used leave what was in use before, and a line in the log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest::{Context, SHA256};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use secrecy::zeroize::Zeroizing;
use tokio_rustls::TlsAcceptor;

use super::roles::Role;

/// Longest file taken.
const FILE_LIMIT: u64 = 1 << 20;

/// The files of TLS, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authority that signs the certificates of callers.
    pub ca: PathBuf,
    /// The agent's certificate, with those between it and its authority.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{flag}: {} cannot be read; see that it is there and belongs to the user of this process", path.display())]
    Read {
        /// The flag that names it.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{flag}: {} {problem}", path.display())]
    Content {
        /// The flag that names it.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it and what to do.
        problem: String,
    },
}

/// TLS as the files say.
#[derive(Debug)]
pub(super) struct Tls {
    files: TlsFiles,
    /// Taken for an instant, to read the files or to take what is in use.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    digest: Vec<u8>,
    config: Arc<ServerConfig>,
    /// The last complaint, so that it is not repeated for each connection.
    complaint: Option<String>,
}

impl Tls {
    /// TLS from these files.
    pub(super) fn new(files: TlsFiles) -> Result<Self, TlsError> {
        let texts = Texts::read(&files)?;
        let state = State {
            digest: texts.digest(),
            config: texts.config(&files)?,
            complaint: None,
        };
        Ok(Self {
            files,
            state: Mutex::new(state),
        })
    }

    /// For the next connection: as the files are now, if they can be used.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match self.renewed(&state.digest) {
            Ok(None) => {}
            Ok(Some(renewed)) => {
                tracing::info!("the files of TLS changed, and are in use");
                *state = renewed;
            }
            Err(error) => {
                let complaint = format!("{error}");
                if state.complaint.as_ref() != Some(&complaint) {
                    tracing::error!(%error, "the files of TLS changed and cannot be used; the old ones stay in use");
                    state.complaint = Some(complaint);
                }
            }
        }
        TlsAcceptor::from(Arc::clone(&state.config))
    }

    fn renewed(&self, digest: &[u8]) -> Result<Option<State>, TlsError> {
        let texts = Texts::read(&self.files)?;
        let new = texts.digest();
        if new == digest {
            return Ok(None);
        }
        Ok(Some(State {
            digest: new,
            config: texts.config(&self.files)?,
            complaint: None,
        }))
    }
}

/// The contents of the files.
struct Texts {
    ca: Vec<u8>,
    cert: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
}

impl Texts {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        Ok(Self {
            ca: read("--ca-file", &files.ca)?,
            cert: read("--cert-file", &files.cert)?,
            key: read("--key-file", &files.key)?.into(),
        })
    }

    fn digest(&self) -> Vec<u8> {
        let mut context = Context::new(&SHA256);
        for text in [&self.ca, &self.cert, &*self.key] {
            context.update(&text.len().to_be_bytes());
            context.update(text);
        }
        context.finish().as_ref().to_vec()
    }

    fn config(&self, files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
        let content = |flag, path: &Path| {
            let path = path.to_owned();
            move |problem: String| TlsError::Content {
                flag,
                path,
                problem,
            }
        };
        let ca = content("--ca-file", &files.ca);
        let cert = content("--cert-file", &files.cert);
        let key = content("--key-file", &files.key);
        let roots = roots(&self.ca).map_err(ca.clone())?;
        let chain = certificates(&self.cert).map_err(cert.clone())?;
        let private = PrivateKeyDer::from_pem_slice(&self.key);
        let private = private.map_err(|_| key("holds no private key in PEM".to_owned()))?;
        let provider = Arc::new(default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
        let verifier = verifier.build().map_err(|error| ca(error.to_string()))?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| cert.clone()(error.to_string()))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, private)
            .map_err(|error| cert(format!("does not go with the key of --key-file: {error}")))?;
        Ok(Arc::new(config))
    }
}

fn roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        let added = roots.add(certificate);
        added.map_err(|error| format!("holds a certificate that is no authority: {error}"))?;
    }
    Ok(roots)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err("holds no certificate in PEM".to_owned()),
        Err(error) => Err(format!("is not PEM: {error}")),
    }
}

/// The role of whoever holds this certificate.
pub(super) fn role(certificates: Option<&[CertificateDer<'_>]>) -> Role {
    let Some(certificate) = certificates.and_then(<[_]>::first) else {
        return Role::Stranger;
    };
    match webpki::EndEntityCert::try_from(certificate) {
        Ok(certificate) => Role::of(certificate.valid_uri_names()),
        Err(_) => Role::Stranger,
    }
}

fn read(flag: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |source| TlsError::Read {
        flag,
        path: path.to_owned(),
        source,
    };
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() || metadata.len() > FILE_LIMIT {
        return Err(failed(io::Error::other("not a file of that kind")));
    }
    std::fs::read(path).map_err(failed)
}
