package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

// Limits of a report's texts, in characters. The API rejects longer ones.
const (
	VersionLimit         = 64
	StepLimit            = 128
	MessageLimit         = 512
	OperatingSystemLimit = 128
	KernelLimit          = 64
	ModelLimit           = 64
	VirtualizationLimit  = 32
	DiskNameLimit        = 32
	DisksLimit           = 8
	AddressesLimit       = 8
)

const (
	mostLeftovers   = 11
	longestLeftover = 256
	mostVersions    = 32
)

// Cut shortens s to limit bytes, and therefore to at most limit characters.
func Cut(s string, limit int) string { return s[:min(len(s), limit)] }

// Name returns the characters of a model name that a report may contain: letters, digits and a few others, with single
// spaces between words.
func Name(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("()@.,:/_+-", r) {
			return r
		}
		return ' '
	}, s)
	return strings.TrimSpace(Cut(strings.Join(strings.Fields(s), " "), ModelLimit))
}

// ForEarlier returns the report without the fields that earlier providers don't know. Those providers reject a report
// that contains unknown fields.
func ForEarlier(r *v1beta2.AgentReport) *v1beta2.AgentReport {
	r = r.DeepCopy()
	r.ProcessorModel, r.Model, r.Virtualization, r.Disks, r.Addresses, r.Carries = "", "", "", nil, nil, ""
	return r
}

// Leftovers returns as many leftovers as fit into a report. If some don't fit, the last entry counts them.
func Leftovers(all []string) []string {
	cut := slices.Clone(all)
	if more := len(all) - mostLeftovers; more > 0 {
		cut = append(cut[:mostLeftovers-1], fmt.Sprintf("and %d more, see the log of the cleaning on the host", more+1))
	}
	for i, l := range cut {
		cut[i] = strings.ToValidUTF8(Cut(l, longestLeftover), "")
	}
	return cut
}

// Versions returns the first versions, as many as fit into a report.
func Versions(all []string) []string {
	cut := slices.DeleteFunc(slices.Clone(all), func(v string) bool { return len(v) > VersionLimit })
	return cut[:min(len(cut), mostVersions)]
}
