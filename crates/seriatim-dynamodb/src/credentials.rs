//! The credentials that AWS's own tools would find, looked for when the first request needs them and fetched again before they
//! expire: profiles (also of single sign-on and of processes), web identity, containers and instances.

use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::provider::{self, ProvideCredentials, future};
use aws_sdk_dynamodb::config::Region;
use aws_smithy_http_client::tls;
use tokio::sync::OnceCell;

/// AWS's default chain of providers.
#[derive(Debug)]
pub(crate) struct DefaultChain {
    region: Region,
    chain: OnceCell<DefaultCredentialsChain>,
}

impl DefaultChain {
    pub fn new(region: &str) -> Self {
        DefaultChain { region: Region::new(region.to_owned()), chain: OnceCell::new() }
    }

    async fn credentials(&self) -> provider::Result {
        let chain = self.chain.get_or_init(|| self.build()).await;
        chain.provide_credentials().await
    }

    async fn build(&self) -> DefaultCredentialsChain {
        let tls = tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring);
        let http = aws_smithy_http_client::Builder::new().tls_provider(tls).build_https();
        let settings = ProviderConfig::default().with_http_client(http);
        DefaultCredentialsChain::builder().configure(settings).region(self.region.clone()).build().await
    }
}

impl ProvideCredentials for DefaultChain {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.credentials())
    }
}
