//! What errors of SQS mean for a change.

use aws_sdk_sqs::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::BatchResultErrorEntry;
use seriatim::Failure;
use seriatim::handler::FailureKind;

/// Codes that speak of a message itself.
const OF_A_MESSAGE: [&str; 4] =
    ["BatchRequestTooLong", "InvalidMessageContents", "InvalidParameterValue", "MessageTooLong"];

/// What a failed request means.
pub fn failure<E, R>(doing: &str, queue: &str, error: &SdkError<E, R>) -> Failure
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    match error.as_service_error() {
        Some(service) => of_code(doing, queue, service.code().unwrap_or("unknown error"), service.message()),
        None => Failure::target(format!("{doing} {queue}: {}", DisplayErrorContext(error))),
    }
}

/// What a failed message of a request means.
pub fn of_entry(entry: &BatchResultErrorEntry, queue: &str) -> Failure {
    of_code("sending to the queue", queue, entry.code(), entry.message())
}

/// Whether it was a message that the service did not take.
pub fn is_of_a_message(failure: &Failure) -> bool {
    failure.kind == FailureKind::Poison
}

fn of_code(doing: &str, queue: &str, code: &str, message: Option<&str>) -> Failure {
    // "AWS.SimpleQueueService.NonExistentQueue", or "com.amazonaws.sqs#QueueDoesNotExist".
    let code = code.rsplit(['.', '#']).next().unwrap_or(code);
    let said = message.map_or_else(String::new, |message| format!(": {message}"));
    let said = format!("{doing} {queue}: {code}{said}");
    match code {
        code if OF_A_MESSAGE.contains(&code) => Failure::poison(said),
        "QueueDoesNotExist" | "NonExistentQueue" => {
            Failure::target(format!("{said}; make it, such as with `aws sqs create-queue`"))
        }
        "AccessDenied" | "AccessDeniedException" => Failure::target(format!(
            "{said}; allow sqs:SendMessage and, for `seriatim check`, sqs:GetQueueAttributes"
        )),
        "InvalidClientTokenId" | "UnrecognizedClientException" | "SignatureDoesNotMatch" | "ExpiredToken" => {
            Failure::target(format!(
                "{said}; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"
            ))
        }
        _ => Failure::target(said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wrong_with_a_message_is_the_changes_fault() {
        let kind = |code| of_code("sending to the queue", "q", code, None).kind;
        assert_eq!(kind("AWS.SimpleQueueService.BatchRequestTooLong"), FailureKind::Poison);
        assert_eq!(kind("InvalidMessageContents"), FailureKind::Poison);
        for code in ["InternalError", "RequestThrottled", "AccessDenied", "QueueDoesNotExist"] {
            assert_eq!(kind(code), FailureKind::Target, "{code}");
        }
    }
}
