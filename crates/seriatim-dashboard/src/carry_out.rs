//! An action with its note: by whom, when, why, and what came of it.

use serde_json::Value;

use crate::panel::{Action, Done, Panel, Refusal, RefusalKind};

/// Does something, and keeps that it was done, by whom and why. An action that cannot be kept is not done.
pub async fn carry_out(
    panel: &dyn Panel,
    action: &Action,
    by: &str,
    reason: Option<String>,
) -> Result<Value, Refusal> {
    let mut done = Done {
        id: new_id()?,
        at: seriatim::clock::wall(),
        by: by.to_owned(),
        action: action.name().to_owned(),
        feed: action.feed().to_owned(),
        details: serde_json::to_value(action).unwrap_or_default(),
        reason,
        outcome: "asked".to_owned(),
    };
    panel.keep(&done).await?;
    let outcome = panel.act(action).await;
    done.outcome = match &outcome {
        Ok(answer) => told(answer),
        Err(refusal) => format!("refused: {}", refusal.sentence),
    };
    panel.keep(&done).await?;
    outcome
}

/// What came of an action, with its numbers where it has some.
fn told(answer: &Value) -> String {
    let number = |(one, many): (&str, &str)| {
        let number = answer[many].as_u64()?;
        Some(format!("{number} {}", if number == 1 { one } else { many }))
    };
    let names = [("object", "objects"), ("dropped", "dropped"), ("left", "left")];
    let numbers: Vec<String> = names.into_iter().filter_map(number).collect();
    if numbers.is_empty() { "done".to_owned() } else { format!("done: {}", numbers.join(", ")) }
}

fn new_id() -> Result<String, Refusal> {
    let mut bytes = [0; 12];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes)
        .map_err(|_| Refusal::new(RefusalKind::Unavailable, "the system gives no random bytes"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
