//! Which certificates are trusted: the system's, which `SSL_CERT_FILE` and `SSL_CERT_DIR` replace,
//! and those of a file that the user names.

use crate::error::Problem;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// The variable in which the AWS command line expects a file of certificates.
const AWS_CA_BUNDLE: &str = "AWS_CA_BUNDLE";

/// The settings of TLS. `is_needed`: without any certificate there can be no connection.
///
/// # Errors
/// [`Problem::CaFile`], [`Problem::NoCertificates`].
pub(crate) fn config(ca_file: Option<&Path>, is_needed: bool) -> Result<ClientConfig, Problem> {
    let mut roots = RootCertStore::empty();
    if is_needed {
        // Single files that cannot be read are skipped, as other programs do.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(path) = ca_file {
            add(&mut roots, path)?;
        }
        if let Some(path) = std::env::var_os(AWS_CA_BUNDLE).filter(|path| !path.is_empty()) {
            add(&mut roots, Path::new(&path))?;
        }
        if roots.is_empty() {
            return Err(Problem::NoCertificates);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Problem::Other(e.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// Adds the certificates of a file in PEM.
fn add(roots: &mut RootCertStore, path: &Path) -> Result<(), Problem> {
    let wrong = |why: &str| {
        let path = path.display();
        Problem::CaFile(format!("the certificates in {path} cannot be used: {why}"))
    };
    let found = CertificateDer::pem_file_iter(path).map_err(|e| wrong(&e.to_string()))?;
    let mut any = false;
    for certificate in found {
        let certificate = certificate.map_err(|e| wrong(&e.to_string()))?;
        roots.add(certificate).map_err(|e| wrong(&e.to_string()))?;
        any = true;
    }
    match any {
        true => Ok(()),
        false => Err(wrong("it has none in PEM")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("ca.pem");
        for contents in [None, Some("no certificate")] {
            if let Some(contents) = contents {
                std::fs::write(&path, contents).expect("written");
            }
            match config(Some(&path), true) {
                Err(Problem::CaFile(said)) => assert!(said.contains("ca.pem"), "{said}"),
                other => panic!("{other:?}"),
            }
        }
        assert!(config(Some(&path), false).is_ok(), "not needed");
    }
}
