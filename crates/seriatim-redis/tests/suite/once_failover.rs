//! What the ledger says about runs of another server's life, and of an earlier version.

use std::time::Duration;

use seriatim::once::{
    AttemptId, Claim, Completion, Held, Ledger, ProcessorId, Recorded, Signal, SignalId, Started, State,
};
use seriatim_redis::redis::{self, aio::MultiplexedConnection};
use seriatim_redis::{Prefix, Redis, RedisLedger};
use seriatim_testkit::servers;

/// A server of its own, with a ledger on it.
struct Node {
    server: servers::Redis,
    ledger: RedisLedger,
    link: MultiplexedConnection,
}

impl Node {
    async fn start() -> Self {
        let server = servers::Redis::start().unwrap();
        let redis = Redis::connect(&server.url()).await.unwrap();
        let ledger = RedisLedger::open(redis, Prefix::tagged("failover").unwrap()).unwrap();
        let client = redis::Client::open(server.url()).unwrap();
        let link = client.get_multiplexed_async_connection().await.unwrap();
        Node { server, ledger, link }
    }

    async fn follow(&mut self, master: Option<&Node>) {
        let (host, port) = match master {
            Some(node) => ("127.0.0.1", node.server.port().to_string()),
            None => ("NO", "ONE".to_owned()),
        };
        redis::cmd("REPLICAOF").arg(host).arg(port).exec_async(&mut self.link).await.unwrap();
        // A server begins a new life when its first replica joins: what is claimed before counts for nothing after.
        while master.is_some() && !self.says("master_link_status:up").await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn says(&mut self, line: &str) -> bool {
        let mut asking = redis::cmd("INFO");
        asking.arg("replication").query_async::<String>(&mut self.link).await.unwrap().contains(line)
    }

    async fn claims(&self, claim: &Claim) {
        assert_eq!(self.ledger.start(claim, None).await.unwrap(), Started::Claimed { number: 1 });
    }

    /// For how long the run has stood still, as this server vouches, once it knows of the run.
    async fn vouches_for(&self, claim: &Claim) -> Duration {
        loop {
            if let Some(record) = self.ledger.show(&claim.signal).await.unwrap() {
                assert_eq!((record.state, &record.run.attempt), (State::Running, &claim.attempt));
                return record.stood_still;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until this server vouches for something.
    async fn vouches_in_the_end(&self, claim: &Claim) {
        let vouched = async { while self.vouches_for(claim).await.is_zero() {} };
        tokio::time::timeout(Duration::from_secs(60), vouched).await.unwrap();
    }
}

fn claim(id: &str) -> Claim {
    let signal = Signal { processor: ProcessorId::new("mailer").unwrap(), id: SignalId::new(id).unwrap() };
    let (limit, kept) = (Duration::from_secs(30), Some(Duration::from_secs(60)));
    Claim { signal, attempt: AttemptId::random(), max_processing_time: limit, kept_for: kept }
}

#[tokio::test]
async fn no_server_vouches_for_a_run_by_another_servers_clock() {
    let (mut first, mut second) = (Node::start().await, Node::start().await);
    second.follow(Some(&first)).await;
    let before = claim("before");
    first.claims(&before).await;
    // The replica has it, and by then the run has stood still for a while; but the replica's clock may be wrong.
    assert_eq!(second.vouches_for(&before).await, Duration::ZERO, "a replica");
    second.follow(None).await;
    first.vouches_in_the_end(&before).await;
    assert_eq!(second.vouches_for(&before).await, Duration::ZERO, "a replica that took over");
    let after = claim("after");
    second.claims(&after).await;
    second.vouches_in_the_end(&after).await;
    first.follow(Some(&second)).await;
    assert_eq!(first.vouches_for(&after).await, Duration::ZERO, "a master that was replaced");
    first.follow(None).await;
    assert_eq!(first.vouches_for(&after).await, Duration::ZERO, "a master that is one again");
}

#[tokio::test]
async fn a_run_that_an_earlier_version_claimed_is_read_and_completed() {
    let mut node = Node::start().await;
    let old = claim("old");
    let fields = [
        ("state", "running"),
        ("attempt", old.attempt.as_str()),
        ("number", "3"),
        ("beat", "2"),
        ("started_at", "1700000000000000"),
        ("limit", "30000"),
        ("beat_at", "1700000000000000"),
        // A run id, by which servers were told apart before.
        ("life", "0123456789abcdef0123456789abcdef01234567"),
    ];
    let mut written = redis::pipe();
    written.hset_multiple("{failover}:once:mailer\nold", &fields).ignore();
    written.zadd("{failover}:once.index", "mailer\nold", 0).ignore();
    written.exec_async(&mut node.link).await.unwrap();
    assert_eq!(node.vouches_for(&old).await, Duration::ZERO);
    assert_eq!(node.ledger.start(&old, None).await.unwrap(), Started::Claimed { number: 3 });
    let result = Recorded::Kept(b"done".to_vec());
    let completion = Completion { result: result.clone(), expires_after: None };
    assert_eq!(node.ledger.complete(&old, &completion).await.unwrap(), Held::Kept);
    let record = node.ledger.show(&old.signal).await.unwrap().unwrap();
    assert_eq!((record.state, record.number, record.result), (State::Completed, 3, Some(result)));
}
