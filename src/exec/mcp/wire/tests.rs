//! Texts as a server may send them.

use super::*;

fn wire() -> (JsonRpcWire, WireFault) {
    let fault = WireFault::default();
    let (wire, _) = JsonRpcWire::new(fault.clone());
    (wire, fault)
}

fn fault(fault: &WireFault) -> String {
    fault
        .failure()
        .map(|failure| failure.message)
        .unwrap_or_default()
}

#[test]
fn an_answer_without_a_request_ends_the_connection() {
    let (mut wire, said) = wire();
    wire.asked.insert(RequestId::Number(1));
    assert!(
        wire.read(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)
            .is_ok_and(|it| it.is_some())
    );
    assert!(
        wire.read(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)
            .is_err()
    );
    assert_eq!(
        fault(&said),
        "the server answered request 1, which was not made or was answered already"
    );
}

#[test]
fn a_few_stray_lines_are_borne_and_remembered() {
    let (mut wire, said) = wire();
    for text in ["Listening on stdio\u{7}", "{", "[]", "42", "{}"] {
        assert!(wire.read(text).is_ok_and(|it| it.is_none()), "{text}");
    }
    assert_eq!(
        said.stray().as_deref(),
        Some("it wrote `Listening on stdio\\u{7}`, which is not an MCP message")
    );
    assert_eq!(said.failure(), None);
    assert!((0..MOST_STRAY).any(|_| wire.read("more").is_err()));
    assert_eq!(
        fault(&said),
        "the server does not speak MCP: it wrote `Listening on stdio\\u{7}`, which is not an MCP message, and other invalid lines"
    );
}
