package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/extension/finding"
)

// explain says what is missing: hosts in total, hosts in a zone, or hosts of a kind.
func explain(hosts []Host, inventory inventory, promised, needs []Need, words Words) finding.Finding {
	if all := describe(hosts, inventory, promised, "", needs, words); all.available < all.needed {
		return finding.Finding{Reason: ReasonTooFewHosts, Message: all.short()}
	}
	for _, need := range needs {
		if need.Zone == "" {
			continue
		}
		if there := describe(hosts, inventory, promised, need.Zone, needs, words); there.available < there.needed {
			return finding.Finding{Reason: ReasonTooFewHostsInZone, Message: there.short()}
		}
	}
	for _, limits := range limitsIn(needs) {
		alike := slices.DeleteFunc(slices.Clone(needs), func(n Need) bool { return n.Limits != limits })
		if these := describe(hosts, inventory, promised, "", alike, words); these.available < these.needed {
			return finding.Finding{Reason: ReasonTooFewHosts, Message: these.short()}
		}
	}
	// Each kind fits alone, but not all of them together: some hosts are promised to others.
	all := describe(hosts, inventory, promised, "", needs, words)
	return finding.Finding{Reason: ReasonZonesShared, Message: all.text() +
		", but not all of them in the zones that it asks for: add hosts there, or change the failure domains"}
}

// picture is the state of the hosts in one zone or in all zones.
type picture struct {
	words     Words
	zone      string // "" means all
	limits    string // the limits of all needs; "" if they have none or different ones
	needed    int
	available int
	hosts     int
	why       []string // why the other hosts are not available
}

func describe(hosts []Host, inventory inventory, promised []Need, zone string, needs []Need, words Words) picture {
	p := picture{zone: zone, words: words}
	version := ""
	var kinds []Need
	for _, need := range needs {
		if zone == "" || need.Zone == zone {
			p.needed += need.Hosts
			version = need.Version
			kinds = append(kinds, Need{Zone: zone, Version: version, Limits: need.Limits})
		}
	}
	of := limitsIn(kinds)
	if len(of) == 1 {
		p.limits = of[0]
	}
	counts := map[State]int{}
	unfit, beyond := 0, 0
	for _, h := range hosts {
		if zone != "" && h.Zone != zone {
			continue
		}
		p.hosts++
		counts[h.State]++
		switch {
		case h.State != Free:
		case !slices.ContainsFunc(of, h.meets):
			beyond++
		case !h.offers(version):
			unfit++
		}
	}
	p.available = inventory.available(promised, kinds)
	count := func(n int, what string) {
		if n > 0 {
			p.why = append(p.why, fmt.Sprintf("%d %s", n, what))
		}
	}
	count(counts[Claimed], string(Claimed))
	count(counts[Free]-unfit-beyond-p.available, cmp.Or(words.Promised, "promised to other clusters"))
	for _, state := range states[1:] {
		count(counts[state], string(state))
	}
	count(unfit, "without Kubernetes "+version)
	switch {
	case p.limits == onlyLocal:
		count(beyond, "not local")
	case p.limits != "":
		count(beyond, "without them")
	default:
		count(beyond, "without what machines select")
	}
	return p
}

// asked returns in words what the limits require of hosts, apart from being local.
func (p picture) asked() string {
	if p.limits == onlyLocal {
		return ""
	}
	return strings.TrimPrefix(p.limits, onlyLocal+", ")
}

// limitsIn returns the limits of needs, each once.
func limitsIn(needs []Need) []string {
	var all []string
	for _, need := range needs {
		if !slices.Contains(all, need.Limits) {
			all = append(all, need.Limits)
		}
	}
	return all
}

// text returns the numbers, for example "cluster needs 6 hosts, 4 of 8 are free (3 claimed, 1 offline)".
func (p picture) text() string {
	where, there := "", ""
	if p.zone != "" {
		where, there = " in "+p.zone, " there"
	}
	with := ""
	if asked := p.asked(); asked != "" {
		with = " with " + asked
	}
	needs := fmt.Sprintf("%s needs %s%s%s", cmp.Or(p.words.Subject, "cluster"), plural(p.needed), with, where)
	if p.hosts == 0 {
		return needs + ", there are none"
	}
	verb := "are"
	if p.available == 1 {
		verb = "is"
	}
	free := fmt.Sprintf("%d of %d%s %s free", p.available, p.hosts, there, verb)
	if len(p.why) > 0 {
		free += " (" + strings.Join(p.why, ", ") + ")"
	}
	return needs + ", " + free
}

func (p picture) short() string {
	if p.zone != "" {
		return p.text() + ": add hosts there, or change the failure domains"
	}
	return p.text() + ": add hosts, or " + cmp.Or(p.words.Remedy, "make the cluster smaller")
}

func plural(hosts int) string {
	if hosts == 1 {
		return "1 host"
	}
	return fmt.Sprintf("%d hosts", hosts)
}
