//! `once run` at its edges: processes that outlive the command, signals while it claims, stores that do not answer.

use std::net::TcpListener;

use seriatim_testkit::servers::{Postgres, Proxy, Redis};

use super::*;

/// Longer than any of these may take, shorter than what they would wait for by mistake.
const SOON: Duration = Duration::from_secs(15);

#[test]
fn a_command_ends_with_its_exit_although_a_process_holds_its_output() {
    let place = Place::at("sqlite:seriatim.db");
    let script = "echo ran >> runs; sleep 60 2> /dev/null & echo $! > left; echo done";
    let began = clock::now();
    let first = place.run("1", "--max-processing-time 2s", script);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!(first.expect(0, &["left a process that holds its output open"]).stdout, "done\n");
    assert_eq!(place.run("1", "--max-processing-time 2s", script).expect(0, &[]).stdout, "done\n");
    assert_eq!(place.lines("runs"), 1, "it ran once");
    let left: i32 = std::fs::read_to_string(place.file("left")).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(left).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn all_that_a_command_printed_before_its_exit_is_recorded() {
    let place = Place::at("sqlite:seriatim.db");
    let script = "sleep 60 2> /dev/null & echo $! > left; head -c 200000 /dev/zero | tr '\\0' a";
    let printed = place.run("1", "", script).expect(0, &[]).stdout;
    assert_eq!(printed.len(), 200_000);
    assert_eq!(place.run("1", "", script).expect(0, &[]).stdout, printed);
    let left: i32 = std::fs::read_to_string(place.file("left")).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(left).unwrap(), Signal::KILL).unwrap();
}

/// Others that wait for a lock in the database, and others that are at something.
const WAITING: &str = "select count(*) from pg_locks where not granted";
const UNDECIDED: &str =
    "create temporary table claimed as select * from seriatim.once; update claimed set id = '1';
    begin; insert into seriatim.once select * from claimed";
const BUSY: &str = "select count(*) from pg_stat_activity
    where datname = current_database() and state = 'active' and pid <> pg_backend_pid()";

#[tokio::test]
async fn a_signal_in_the_moment_of_the_claim_leaves_no_claim_behind() {
    let server = Postgres::start().unwrap();
    let place = Place::at(&server.url_of(&server.database().unwrap()));
    place.run("0", "", "true").expect(0, &[]);
    let (client, connection) = tokio_postgres::connect(&place.store, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let until_some = async |query: &str, some: bool| {
        let began = clock::now();
        while (client.query_one(query, &[]).await.unwrap().get::<_, i64>(0) > 0) != some {
            assert!(began.elapsed() < SOON, "{query}");
        }
    };
    // Another claim of the same signal that is not decided yet: the statement that claims waits for it on the server.
    client.batch_execute(UNDECIDED).await.unwrap();
    let mut claiming =
        place.script("1", "--max-processing-time 1h --on-timeout unknown", "true").spawn().unwrap();
    until_some(WAITING, true).await;
    send(&claiming, Signal::TERM);
    // One that does not wait for the claim is gone by now, and the server still has the claim before it.
    let told = clock::now();
    while claiming.try_wait().unwrap().is_none() && told.elapsed() < Duration::from_secs(1) {
        std::thread::yield_now();
    }
    client.batch_execute("rollback").await.unwrap();
    // A signal that is heard only after the claim is passed on to the command.
    let code = ran(claiming).code;
    assert!(code == 0 || code == 128 + 15, "{code}");
    until_some(BUSY, false).await;
    let shown = place.of("show --processor mailer --id 1 --json");
    assert!(!shown.stdout.contains(r#""state":"running""#), "{shown:?}");
}

#[test]
fn a_store_that_does_not_answer_is_waited_for_no_longer_than_allowed() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    for store in [format!("postgres://me@{address}/db"), format!("redis://{address}/")] {
        let began = clock::now();
        let ran = Place::at(&store).run("1", "--max-wait 500ms", "echo no");
        assert!(began.elapsed() < SOON, "{store}: {:?}", began.elapsed());
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{store}");
    }
}

#[test]
fn a_store_that_comes_back_in_time_is_waited_for_while_connecting() {
    let server = Redis::start().unwrap();
    let proxy = Proxy::before(server.port()).unwrap();
    proxy.close();
    let place = Place::at(&format!("redis://127.0.0.1:{}/", proxy.port()));
    let waiting = place.script("1", "--max-wait 60s", "echo now").spawn().unwrap();
    let began = clock::now();
    // More often than the client itself tries.
    while proxy.refused() < 8 {
        assert!(began.elapsed() < SOON, "it has given up");
        std::thread::sleep(Duration::from_millis(5));
    }
    proxy.open();
    assert_eq!(ran(waiting).expect(0, &[]).stdout, "now\n");
    proxy.close();
    place.run("1", "--max-wait 0s", "echo no").expect(1, &["store"]);
}

#[test]
fn the_command_gets_the_callers_environment_without_the_store() {
    let place = Place::at("sqlite:seriatim.db");
    std::fs::write(place.file("some.toml"), "store = \"sqlite:other.db\"\n").unwrap();
    let script =
        "echo ${SERIATIM_STORE-none} ${SERIATIM_SOURCE_SHOP_URL-none} ${SERIATIM_CONFIG-none} $PGPASSWORD";
    let mut command = place.script("1", "", script);
    command
        .env("PGPASSWORD", "its own")
        .env("SERIATIM_SOURCE_SHOP_URL", "hush")
        .env("SERIATIM_CONFIG", "some.toml");
    assert_eq!(finish(&mut command).expect(0, &[]).stdout, "none none some.toml its own\n");
}
