//! DynamoDB's errors, by what can be done about them.

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_dynamodb::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use seriatim::store::StoreError;

/// What an error of an operation on a table means for its caller.
pub(crate) fn explain<E, R>(doing: &str, table: &str, error: SdkError<E, R>) -> StoreError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    let doing = format!("{doing} the table {table}");
    let Some(service) = error.as_service_error() else {
        if let Some(cause) = login_error(&error) {
            return without_credentials(&doing, cause);
        }
        return match &error {
            SdkError::ConstructionFailure(_) => StoreError::needs_attention(
                format!("{doing}: {}", DisplayErrorContext(&error)),
                "check the address",
            ),
            _ => StoreError::unavailable(doing, DisplayErrorContext(&error).to_string()),
        };
    };
    let code = service.code().unwrap_or("unknown error");
    let said = match service.message() {
        Some(message) => format!("{doing}: {code}: {message}"),
        None => format!("{doing}: {code}"),
    };
    match code {
        "ResourceNotFoundException" => StoreError::needs_attention(
            format!("there is no table {table} in DynamoDB"),
            "make it with `seriatim once init`, or print what makes it with `--print cloudformation` or `--print terraform`",
        ),
        "AccessDeniedException"
        | "UnrecognizedClientException"
        | "InvalidSignatureException"
        | "MissingAuthenticationTokenException"
        | "ExpiredTokenException" => StoreError::needs_attention(
            said,
            "check the credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE, or the role of the container or instance) and their rights",
        ),
        "ValidationException" | "SerializationException" => {
            StoreError::needs_attention(said, "see DynamoDB's message; was the table made by something else?")
        }
        // Throttled for longer than the client tried, or the service is in trouble.
        _ => StoreError::unavailable(doing, said),
    }
}

/// Why there are no credentials, if that is what an error is about.
fn login_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a CredentialsError> {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.find_map(|cause| cause.downcast_ref())
}

fn without_credentials(doing: &str, cause: &CredentialsError) -> StoreError {
    let said = format!("{doing}: no AWS credentials: {}", DisplayErrorContext(cause));
    match cause {
        // A service that gives credentials is away, or slow.
        CredentialsError::ProviderTimedOut(_) | CredentialsError::ProviderError(_) => {
            StoreError::unavailable(doing, said)
        }
        _ => StoreError::needs_attention(
            said,
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the container or instance a role",
        ),
    }
}
