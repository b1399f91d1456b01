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
        limits: ResourceLimits {
            memory: Some(1),
            file_size: None,
            cpu_seconds: Some(u64::MAX),
            ..ResourceLimits::default()
        },
        confinement: Some(Confinement {
            writable: vec![PathBuf::from(odd()), "/tmp".into()],
            read_only: vec!["/p/.git".into()],
            hidden: vec!["/run/socket".into()],
            homes: vec!["/home/user".into()],
            visible: vec!["/home/user/bin/piton".into()],
            view: MountView::Own,
            tcp: TcpRule::Ports([80, 65535].into()),
            network: NetworkView::Empty,
        }),
        kept: 0,
    }
}

#[test]
fn what_is_sent_arrives_whole_however_it_is_cut() {
    let orders = [
        SupervisorOrder::Work(Box::new(work())),
        SupervisorOrder::Stop(15),
        SupervisorOrder::Continue,
    ];
    let sent: Vec<u8> = orders
        .iter()
        .flat_map(|order| order.encode().unwrap())
        .collect();
    for size in [1, 5, 1000] {
        let mut inbox = Inbox::default();
        let mut heard = Vec::new();
        for piece in sent.chunks(size) {
            inbox.add(piece);
            while let Some(message) = inbox.next() {
                heard.push(SupervisorOrder::decode(&message).unwrap());
            }
        }
        assert_eq!(heard, orders);
    }
}

#[test]
fn reports_arrive() {
    let end = EndMessage {
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
        SupervisorMessage::Started(7),
        SupervisorMessage::Failed(2),
        SupervisorMessage::Result(b"{}".to_vec()),
        SupervisorMessage::NoResult(ResultFault::TooLarge(5)),
        SupervisorMessage::NoResult(ResultFault::CutOff),
        SupervisorMessage::Touched(TouchedPaths {
            paths: ["/a".into(), "/b/c".into()].into(),
            trees: ["/t".into()].into(),
            inodes: [(1, 2), (u64::MAX, 0)].into(),
            removed: [(
                "/b/d".into(),
                FileTime {
                    seconds: -1,
                    nanos: 5,
                },
            )]
            .into(),
        }),
        SupervisorMessage::Unwatched(Doubt::Kernel(16)),
        SupervisorMessage::Unwatched(Doubt::Lost),
        SupervisorMessage::Refused(vec!["/a".into(), "/b".into()]),
        SupervisorMessage::Stopped(20),
        SupervisorMessage::Ended(end),
    ];
    for report in reports {
        let sent = report.encode().unwrap();
        assert_eq!(SupervisorMessage::decode(&sent[4..]), Some(report));
    }
}

#[test]
fn an_unknown_message_is_rejected() {
    let whole = SupervisorOrder::Work(Box::new(work())).encode().unwrap();
    for length in 4..whole.len() - 1 {
        assert_eq!(SupervisorOrder::decode(&whole[4..length]), None);
    }
    assert_eq!(SupervisorOrder::decode(b"?"), None);
    assert_eq!(SupervisorMessage::decode(b""), None);
}
