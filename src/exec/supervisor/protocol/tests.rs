//! Tests of messages.

use super::*;

fn work() -> Work {
    let odd = || OsString::from_vec(vec![0xff, b'=', b'\n', 0x80]);
    Work {
        program: "/bin/sh".into(),
        argv: vec!["sh".into(), odd(), "".into()],
        folder: PathBuf::from(odd()),
        environment: BTreeMap::from([(odd(), odd()), ("A".into(), "".into())]),
        input: vec![0, 1, 2, 255],
        channel: Channel::Private,
        watch: Watch::Yes,
        within: vec!["/top".into(), PathBuf::from(odd())],
        most_touched: 5,
        log: Some("/log".into()),
        foreground: Foreground::Yes,
        timeout: Some(Duration::from_millis(1500)),
        farewell: Farewell::Ask,
        limits: Limits { memory: Some(1), file_size: None, cpu_seconds: Some(u64::MAX), ..Limits::default() },
        kept: 0,
    }
}

#[test]
fn what_is_sent_arrives_whole_however_it_is_cut() {
    let orders = [Order::Work(Box::new(work())), Order::Stop(15), Order::Continue];
    let sent: Vec<u8> = orders.iter().flat_map(|order| order.encode().unwrap()).collect();
    for size in [1, 5, 1000] {
        let mut inbox = Inbox::default();
        let mut heard = Vec::new();
        for piece in sent.chunks(size) {
            inbox.add(piece);
            while let Some(message) = inbox.next() {
                heard.push(Order::decode(&message).unwrap());
            }
        }
        assert_eq!(heard, orders);
    }
}

#[test]
fn reports_arrive() {
    let end = End {
        exit_code: Some(-1),
        signal: None,
        timed_out: true,
        stopped: false,
        leftovers: 7,
        cpu: Duration::from_micros(5),
        peak_memory: u64::MAX,
        duration: Duration::from_secs(1),
    };
    let reports = [
        Report::Started(7),
        Report::Failed(2),
        Report::Result(b"{}".to_vec()),
        Report::NoResult(ResultFault::TooLarge(5)),
        Report::NoResult(ResultFault::CutOff),
        Report::Touched(TouchedPaths {
            paths: ["/a".into(), "/b/c".into()].into(),
            trees: ["/t".into()].into(),
            inodes: [(1, 2), (u64::MAX, 0)].into(),
        }),
        Report::Unwatched(Doubt::Kernel(16)),
        Report::Unwatched(Doubt::Lost),
        Report::Stopped(20),
        Report::Ended(end),
    ];
    for report in reports {
        let sent = report.encode().unwrap();
        assert_eq!(Report::decode(&sent[4..]), Some(report));
    }
}

#[test]
fn a_message_of_nobody_is_none() {
    let whole = Order::Work(Box::new(work())).encode().unwrap();
    for length in 4..whole.len() - 1 {
        assert_eq!(Order::decode(&whole[4..length]), None);
    }
    assert_eq!(Order::decode(b"?"), None);
    assert_eq!(Report::decode(b""), None);
}
