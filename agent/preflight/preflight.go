// Package preflight says what a computer would miss as a node of Kubernetes, and the command that mends it.
//
// A check looks at one thing and changes nothing. All checks run, whatever one of them finds: the answer is one table.
package preflight

// Verdict is what a check concludes.
type Verdict string

// Verdicts.
const (
	// OK: a node has what it needs.
	OK Verdict = "ok"
	// Warning: a node may work, or was never tried like this.
	Warning Verdict = "warning"
	// Missing: a node does not work.
	Missing Verdict = "missing"
	// Unknown: the check can't see it.
	Unknown Verdict = "unknown"
)

// Finding is what one check found.
type Finding struct {
	// Check is its name.
	Check string `json:"check"`
	// Verdict is what it concludes.
	Verdict Verdict `json:"verdict"`
	// Found says what there is.
	Found string `json:"found"`
	// Mend is a line for a shell of root, which may begin with # where no command can do it. Empty: nothing to do.
	Mend string `json:"mend,omitempty"`
}

// Role is what the node would be.
type Role struct {
	// Worker is true if no control plane shall run on it.
	Worker bool
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
	{"runtime", containerRuntime},
	{"kubernetes", kubernetes},
	{"tools", tools},
	{"leftovers", leftovers},
}

// Run runs all checks.
func Run(s *System, role Role) []Finding {
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
