//! DynamoDB's errors, by what can be done about them.

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
            "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and the rights of their owner",
        ),
        "ValidationException" | "SerializationException" => {
            StoreError::needs_attention(said, "see DynamoDB's message; was the table made by something else?")
        }
        // Throttled for longer than the client tried, or the service is in trouble.
        _ => StoreError::unavailable(doing, said),
    }
}
