// Package attack attacks a real management plane. It tries what hosts, tenants, administrators of workload clusters,
// extensions and other users of the machine must not be able to do, with one attempt for each boundary, identity and
// mechanism, as root and as an ordinary user. Each attempt has a control: the rightful identity succeeds with the same
// action, so that a refusal is not an accident.
//
// docs/threat-model.md says who is trusted with what. With CAPSTAN_ATTACK_REPORT=FILE, the tests write a table of all
// attempts with their verdicts.
package attack
