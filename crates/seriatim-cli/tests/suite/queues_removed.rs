//! Queues that are taken out again.

use crate::handling::{Running, eventually};
use crate::queues::Works;

#[test]
fn an_empty_queue_is_taken_out() {
    for works in Works::everywhere() {
        works.push("work:1", &["1"]).expect(0, &[]);
        works.shop.run("run --once").expect(0, &[]);
        works.shop.run("unwatch works").expect(0, &["feed works: taken out of", "and forgotten"]);
        works.shop.run("queue inspect works work:1 --json").expect(0, &["[]"]);
        works.shop.run("queue invariants works").expect(0, &["all invariants hold"]);
        works.shop.run("unwatch works").expect(0, &["feed works: was not watched"]);
        works.push("work:1", &["2"]).expect(0, &[]);
        let ran = works.shop.run("run --once").expect(0, &[r#""prev":null"#]);
        assert_eq!(ran.stdout.lines().count(), 1, "it is a queue as good as new: {ran:?}");
    }
}

#[test]
fn a_queue_in_which_events_wait_is_not_taken_out() {
    for works in Works::everywhere() {
        works.push("work:1", &["1", "2"]).expect(0, &[]);
        works.push("work:2", &["3"]).expect(0, &[]);
        for line in ["unwatch works", "unwatch"] {
            works.shop.run(line).expect(
                1,
                &[
                    "feed works cannot be taken out: 3 events of 2 objects wait in it",
                    "run --once works",
                    "--force",
                ],
            );
        }
        assert_eq!(works.shop.run("run --once").expect(0, &[]).stdout.lines().count(), 3);
    }
}

#[test]
fn events_of_parked_objects_are_not_dropped_either() {
    for works in Works::everywhere() {
        works.refuse_poison();
        works.push("work:1", &[r#""poison""#]).expect(0, &[]);
        works.shop.run("run --once").expect(1, &["parked"]);
        works.shop.run("unwatch works").expect(1, &["1 events of 1 objects wait in it", "seriatim parked"]);
        works.shop.run("parked list works").expect(0, &["work:1"]);
    }
}

#[test]
fn by_force_a_queue_is_taken_out_with_its_events() {
    for works in Works::everywhere() {
        works.push("work:1", &["1"]).expect(0, &[]);
        works.shop.run("unwatch works --force").expect(0, &["feed works: taken out of"]);
        let ran = works.shop.run("run --once").expect(0, &[]);
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn a_queue_that_the_config_names_no_more_is_taken_out() {
    for works in Works::everywhere() {
        works.push("work:1", &["1"]).expect(0, &[]);
        works.shop.reconfigure("[feed.works", "[feed.others");
        works.shop.run("unwatch works").expect(1, &["1 events of 1 objects wait in it"]);
        works.shop.run("unwatch works --force").expect(0, &["feed works: taken out of"]);
        works.shop.run("unwatch works").expect(2, &["there is no feed \"works\""]);
        works.shop.run("unwatch wroks").expect(2, &["there is no feed \"wroks\""]);
    }
}

#[test]
fn a_queue_at_which_a_host_works_is_not_taken_out() {
    for works in Works::everywhere() {
        let host = Running::start(&works.shop, "run --host ada");
        let joined = || works.shop.run("status --json").stdout.contains("\"ada\"");
        eventually("the host works", joined, || host.log());
        works.shop.run("unwatch works").expect(
            1,
            &["feed works cannot be taken out: it is owned by ada", "stop the host first, or use --force"],
        );
        host.stop().expect(0, &[]);
        works.shop.run("unwatch works").expect(0, &[]);
    }
}
