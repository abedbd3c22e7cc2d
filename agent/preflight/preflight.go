// Package preflight finds out what a computer lacks to become a Kubernetes node, and how to fix it.
//
// A check examines one thing and changes nothing. All checks run regardless of findings, so one table shows everything.
package preflight

// Verdict is the result of a check.
type Verdict string

// The verdicts.
const (
	// OK means that a node has what it needs.
	OK Verdict = "ok"
	// Warning means that a node may work, or that this setup was never tested.
	Warning Verdict = "warning"
	// Missing means that a node will not work.
	Missing Verdict = "missing"
	// Unknown means that the check can't find out.
	Unknown Verdict = "unknown"
)

// Finding is the result of one check.
type Finding struct {
	// Check is the name of the check.
	Check string `json:"check"`
	// Verdict is its result.
	Verdict Verdict `json:"verdict"`
	// Found says what the check found.
	Found string `json:"found"`
	// Mend is a command line for root, or a comment that starts with # if no command can fix it. It is empty if there
	// is nothing to do.
	Mend string `json:"mend,omitempty"`
}

// Role is the role of the future node.
type Role struct {
	// Worker is set if the node will not run a control plane.
	Worker bool
	// Bundles says where the programs of a node come from: plane, directory or packages, as in the agent's
	// configuration. If it is empty, Run uses the configured source, or else that of the CapstanHost, or else whatever
	// the host has.
	Bundles string
	// Kubernetes is the version that a cluster will have, such as v1.36.3. If it is empty, Run uses the version of the
	// host's claim, if there is a claim.
	Kubernetes string

	// enrolment is what System.Enrolment returned; nil if the computer has not enrolled.
	enrolment *Enrolment
	// unreached is why System.Enrolment failed; nil if it did not.
	unreached error
}

// check is one of the checks.
type check struct {
	name string
	run  func(*System, Role) Finding
}

// checks are all checks, in the order of the table.
var checks = []check{
	{"user", user},
	{"architecture", architecture},
	{"processors", processors},
	{"memory", memory},
	{"disk", disk},
	{"kernel", kernel},
	{"cgroups", cgroups},
	{"modules", modules},
	{"sysctls", sysctls},
	{"swap", swap},
	{"time", clock},
	{"selinux", selinux},
	{"systemd", systemd},
	{"machine-id", machineID},
	{"hostname", hostname},
	{"route", route},
	{"ports", ports},
	{"firewall", firewall},
	{"plane", plane},
	{"runtime", containerRuntime},
	{"kubernetes", kubernetes},
	{"tools", tools},
	{"leftovers", leftovers},
}

// Run runs all checks.
func Run(s *System, role Role) []Finding {
	if s.Enrolment != nil {
		if role.enrolment, role.unreached = s.Enrolment(); role.enrolment != nil && role.Kubernetes == "" {
			role.Kubernetes = role.enrolment.Kubernetes
		}
	}
	all := make([]Finding, 0, len(checks))
	for _, c := range checks {
		f := c.run(s, role)
		f.Check = c.name
		all = append(all, f)
	}
	return all
}

// Fit reports whether nothing is missing.
func Fit(all []Finding) bool {
	for _, f := range all {
		if f.Verdict == Missing {
			return false
		}
	}
	return true
}

func ok(found string) Finding            { return Finding{Verdict: OK, Found: found} }
func warning(found, mend string) Finding { return Finding{Verdict: Warning, Found: found, Mend: mend} }
func missing(found, mend string) Finding { return Finding{Verdict: Missing, Found: found, Mend: mend} }
func unknown(found, mend string) Finding { return Finding{Verdict: Unknown, Found: found, Mend: mend} }
