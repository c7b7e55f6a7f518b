//! TLS, as `sslmode` asks for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::url::Address;
use crate::error::PostgresError;

/// Whose certificate a server may show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Anybody's: the connection is encrypted, and no more is asked.
    Anybody,
    /// One that these root certificates have signed; without a file, the public ones.
    SignedBy(Option<PathBuf>),
    /// The same, and made out to the host that was asked for.
    NamedAndSignedBy(Option<PathBuf>),
}

/// What makes connections of this address secure.
pub(super) fn connector(address: &Address) -> Result<MakeRustlsConnect, PostgresError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS 1.2 and 1.3");
    let config = match &address.trust {
        Trust::NamedAndSignedBy(file) => {
            builder.with_root_certificates(roots(file.as_deref())?).with_no_client_auth()
        }
        lenient => {
            let verifier = Lenient { signed_by: chain(lenient, provider.clone())?, provider };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

fn roots(file: Option<&Path>) -> Result<RootCertStore, PostgresError> {
    let Some(file) = file else {
        return Ok(RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()));
    };
    let unreadable =
        |said: String| PostgresError::url(&format!("sslrootcert {} cannot be used: {said}", file.display()));
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file).map_err(|cause| unreadable(cause.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|cause| unreadable(cause.to_string()))?;
        roots.add(certificate).map_err(|cause| unreadable(cause.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unreadable("there is no certificate in it".to_owned()));
    }
    Ok(roots)
}

fn chain(
    trust: &Trust,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<WebPkiServerVerifier>>, PostgresError> {
    let Trust::SignedBy(file) = trust else { return Ok(None) };
    let roots = Arc::new(roots(file.as_deref())?);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
    verifier.map(Some).map_err(|cause| PostgresError::url(&format!("sslrootcert cannot be used: {cause}")))
}

/// Verifies less than rustls by itself would: the chain without the name, or nothing.
#[derive(Debug)]
struct Lenient {
    signed_by: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.signed_by else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is looked at last: the chain is good.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
