//! Commands of a tool.

use super::*;

#[test]
fn a_command_of_a_tool_is_named_by_a_parameter_too() {
    let project = TestProject::new().file(
        ".ai/tools/words.yaml",
        "tool_id: words\ntool_type: cli\nversion: 1.0.0\ndescription: Prints\nexecutor: subprocess\n\
         config: {command: echo}\ncommands: [shout, whisper]\nmutates_state: false\n",
    );
    let mut client = start(&project);
    for call in [
        json!({"item_type": "tool", "item_id": "words", "parameters": {"command": "shout", "text": "hi"}}),
        json!({"item_type": "tool", "item_id": "words:shout", "parameters": {"text": "hi"}}),
    ] {
        let (answer, is_error) = execute(&mut client, call);
        assert!(!is_error, "{answer}");
        assert_eq!(answer["result"]["stdout"], "shout --text hi\n", "{answer}");
    }
    let (answer, is_error) = run_tool(&mut client, "words", &json!({"command": "sing"}));
    assert!(is_error, "{answer}");
    assert_eq!(answer["code"], "UNKNOWN_COMMAND", "{answer}");
    let ran = project.piton(["tool", "run", "words", "--param", "command=whisper"]);
    assert_eq!(ran.stdout(), "whisper\n", "{ran}");
}
