//! What a container needs besides its tool, and what denies it.

use super::*;

const BOX: &str = "<execute resource=\"tool\" id=\"box\"/>";
const HOST: &str = "<execute resource=\"docker\" network=\"host\"/>";

#[test]
fn a_container_needs_its_tool_and_no_more() {
    for network in [ContainerNetwork::None, ContainerNetwork::Bridge] {
        assert!(!allows("", &container(network)));
        assert!(!allows(HOST, &container(network)));
        assert!(allows(BOX, &container(network)));
        assert!(allows(
            "<execute resource=\"tool\" tool_type=\"docker\"/>",
            &container(network)
        ));
        assert_eq!(judge_by(BOX, &container(network)).permissions.len(), 1);
    }
}

#[test]
fn the_network_of_the_machine_has_to_be_granted_by_name() {
    let call = container(ContainerNetwork::Host);
    let verdict = judge_by(BOX, &call);
    let lines: Vec<&str> = verdict
        .denials
        .iter()
        .filter_map(|it| it.allow_with.as_deref())
        .collect();
    assert_eq!(lines, [HOST]);
    let told = "directive `d` does not allow: run a container on the network of this machine";
    assert_eq!(message(&verdict.denials), told);
    for grant in [
        HOST,
        "<docker network=\"host\"/>",
        "<docker network=\"*\"/>",
    ] {
        assert!(allows(&format!("{BOX}{grant}"), &call), "{grant}");
    }
    for grant in [
        "<docker/>",
        "<docker network=\"bridge\"/>",
        "<docker network=\"HOST\"/>",
        "<allow>*</allow>",
    ] {
        assert!(!allows(&format!("{BOX}{grant}"), &call), "{grant}");
    }
    let verdict = judge_by(&format!("{BOX}{HOST}"), &call);
    let told: Vec<(&str, Enforcement)> = verdict
        .permissions
        .iter()
        .map(|it| (&*it.need, it.enforcement))
        .collect();
    assert_eq!(
        told,
        [(BOX, Enforcement::Broker), (HOST, Enforcement::Broker)]
    );
}

#[test]
fn a_deny_wins_also_where_no_grant_is_needed() {
    for (deny, denied) in [
        (
            "<docker/>",
            &[
                ContainerNetwork::None,
                ContainerNetwork::Bridge,
                ContainerNetwork::Host,
            ][..],
        ),
        (
            "<docker network=\"*\"/>",
            &[
                ContainerNetwork::None,
                ContainerNetwork::Bridge,
                ContainerNetwork::Host,
            ],
        ),
        ("<docker network=\"bridge\"/>", &[ContainerNetwork::Bridge]),
        ("<docker network=\"host\"/>", &[ContainerNetwork::Host]),
    ] {
        for network in [
            ContainerNetwork::None,
            ContainerNetwork::Bridge,
            ContainerNetwork::Host,
        ] {
            let is_allowed = allows(
                &format!("{BOX}{HOST}<deny>{deny}</deny>"),
                &container(network),
            );
            assert_eq!(is_allowed, !denied.contains(&network), "{deny} {network:?}");
        }
    }
}

#[test]
fn a_person_may_use_the_network_of_the_machine_and_an_agent_may_not() {
    let call = container(ContainerNetwork::Host);
    assert!(judge(&Authority::Person, &call).is_allowed());
    let verdict = judge(&Authority::Agent, &call);
    assert_eq!(
        verdict
            .denials
            .iter()
            .map(|it| it.what.as_str())
            .collect::<Vec<_>>(),
        ["run a container on the network of this machine"]
    );
    assert!(judge(&Authority::Agent, &container(ContainerNetwork::Bridge)).is_allowed());
}
