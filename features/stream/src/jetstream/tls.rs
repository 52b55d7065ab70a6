//! Which certificates are trusted, and which one the client shows.

use super::options::JetStreamOptions;
use crate::{Error, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// The settings of TLS: the system's certificates, which `SSL_CERT_FILE` and `SSL_CERT_DIR` replace,
/// and those of the caller's file.
pub(super) fn config(options: &JetStreamOptions) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    // Single files that cannot be read are skipped, as other programs do.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = &options.ca_file {
        for certificate in certificates(path)? {
            roots.add(certificate).map_err(|e| unusable(path, &e))?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::Refused(e.to_string()))?
        .with_root_certificates(roots);
    match &options.client_certificate {
        None => Ok(config.with_no_client_auth()),
        Some((certificate, key)) => {
            let read = PrivateKeyDer::from_pem_file(key).map_err(|e| unusable(key, &e))?;
            config
                .with_client_auth_cert(certificates(certificate)?, read)
                .map_err(|e| unusable(certificate, &e))
        }
    }
}

/// The certificates of a file in PEM.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(path).map_err(|e| unusable(path, &e))?;
    let found: std::result::Result<Vec<_>, _> = found.collect();
    let found = found.map_err(|e| unusable(path, &e))?;
    if found.is_empty() {
        return Err(unusable(path, &"it has no certificate in PEM"));
    }
    Ok(found)
}

fn unusable(path: &Path, why: &dyn std::fmt::Display) -> Error {
    let path = path.display();
    Error::Refused(format!(
        "the certificate or key in {path} cannot be used: {why}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("ca.pem");
        let options = JetStreamOptions {
            ca_file: Some(path.clone()),
            ..JetStreamOptions::new("tls://localhost", "s")
        };
        for contents in [None, Some("no certificate")] {
            if let Some(contents) = contents {
                std::fs::write(&path, contents).expect("written");
            }
            match config(&options) {
                Err(Error::Refused(said)) => assert!(said.contains("ca.pem"), "{said}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
