use std::time::Duration;

use serde_json::{Value, json};

use super::{Drained, Load};
use crate::mcp::stdio::tests::Client;

const SMALL: Load = Load {
    at_work: 1,
    waiting: 1,
};

#[tokio::test]
async fn a_panic_is_answered_and_the_server_continues() {
    let mut client = Client::connect(Load::default()).await;
    client.call(1, "panic").await;
    let answer = client.next().await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let text = answer["result"]["content"][0]["text"]
        .as_str()
        .expect("text");
    let body: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(body["error"], "Internal error");
    assert_eq!(body["message"], "`panic` panicked: as told");
    assert!(body["suggestion"].is_string());

    client
        .send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "prompts/list" }))
        .await;
    let answer = client.next().await;
    assert_eq!(answer["error"]["code"], -32603);
    assert_eq!(
        answer["error"]["message"],
        "the server panicked: no prompts"
    );

    client.call(3, "any").await;
    assert_eq!(client.next().await["result"]["content"][0]["text"], "done");
    assert_eq!(
        client.stack.drain(Duration::from_mins(1)).await,
        Drained::Everything
    );
    client.end().await;
}

#[tokio::test]
async fn calls_over_the_limit_are_refused_and_waiting_calls_run_later() {
    let mut client = Client::connect(SMALL).await;
    client.call(1, "sleep").await;
    client.call(2, "any").await;
    client.call(3, "any").await;
    client
        .send(&json!({ "jsonrpc": "2.0", "id": 4, "method": "ping" }))
        .await;
    let mut answers = [client.next().await, client.next().await];
    answers.sort_by_key(|answer| answer["id"].as_i64());
    assert_eq!(answers[0]["id"], 3);
    assert_eq!(
        answers[0]["error"],
        json!({
            "code": -32000,
            "message": "the server is busy: 1 calls are running and 1 wait; try again when some have ended",
        })
    );
    assert_eq!(
        answers[1],
        json!({ "jsonrpc": "2.0", "id": 4, "result": {} })
    );
    assert_eq!(client.next().await["id"], 1);
    assert_eq!(client.next().await["id"], 2);
    client.end().await;
}

#[tokio::test]
async fn a_waiting_call_can_be_cancelled() {
    let mut client = Client::connect(SMALL).await;
    client.call(1, "wait").await;
    client.call(2, "any").await;
    for id in [2, 1] {
        let params = json!({ "requestId": id });
        client
            .send(
                &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
            )
            .await;
    }
    client.call(3, "any").await;
    assert_eq!(client.next().await["id"], 3);
    assert_eq!(
        client.stack.drain(Duration::from_mins(1)).await,
        Drained::Everything
    );
    client.end().await;
}

#[tokio::test]
async fn a_closing_stack_refuses_calls_and_waits_for_running_ones() {
    let mut client = Client::connect(Load::default()).await;
    client.call(1, "wait").await;
    client.call(2, "any").await;
    assert_eq!(client.next().await["id"], 2);
    client.stack.close();
    client.call(3, "any").await;
    let answer = client.next().await;
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!(3), &json!(-32000))
    );
    assert_eq!(
        client.stack.drain(Duration::from_millis(50)).await,
        Drained::Left(1)
    );
    let params = json!({ "requestId": 1 });
    client
        .send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }))
        .await;
    assert_eq!(
        client.stack.drain(Duration::from_mins(1)).await,
        Drained::Everything
    );
    client.end().await;
}
