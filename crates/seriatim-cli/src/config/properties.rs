//! Whatever somebody writes into a configuration, it is understood or answered with a sentence, and no password is shown.

use std::path::Path;

use proptest::prelude::*;

use super::*;

/// Words that a configuration is made of, in any order.
fn nearly_a_configuration() -> impl Strategy<Value = String> {
    let words = [
        "[store]\n",
        "[source.shop]\n",
        "[feed.f]\n",
        "[feed.f.handler]\n",
        "[queue.q]\n",
        "[[feed]]\n",
        "url = ",
        "table = ",
        "source = ",
        "handler = ",
        "type = ",
        "command = ",
        "retry = ",
        "attempts = ",
        "capture = ",
        "window",
        "partitions = ",
        "\"sqlite:a.db\"",
        "\"postgres://u:hunter2@h/d\"",
        "\"redis://:hunter2@h\"",
        "\"shop\"",
        "\"30s\"",
        "\"stdout\"",
        "{ ",
        " }",
        "3",
        "-1",
        "true",
        "[",
        "]",
        ",",
        "\n",
        "\"",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..30).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn any_text_is_a_configuration_or_a_sentence(text in prop_oneof![r"\PC{0,80}", nearly_a_configuration()]) {
        let environment = Environment::of([]);
        if let Err(error) = Config::parse(Path::new("seriatim.toml"), &text, &environment) {
            prop_assert!(!error.sentence().is_empty());
        }
    }

    #[test]
    fn any_duration_is_understood_or_answered(text in r"\PC{0,12}|-?[0-9]{1,30}(\.[0-9]{1,9})?(ns|us|ms|s|m|h|d|w)?(\.\.[0-9]{1,9}s)?") {
        drop(duration::duration(&text));
        drop(duration::backoff(&text));
    }

    #[test]
    fn a_password_is_never_shown(place in r"[a-z0-9.:/?=&%]{0,24}", scheme in "(postgres|redis|mysql|sqlite|dynamodb|)") {
        let url = format!("{scheme}://user:hunter2@{place}");
        prop_assert!(!url::redacted(&url).contains("hunter2"));
        if let Err(said) = url::database(&url, Path::new(".")) {
            prop_assert!(!said.contains("hunter2"), "{}", said);
        }
    }
}
