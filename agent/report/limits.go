package report

import (
	"fmt"
	"slices"
	"strings"
)

// Limits of a report's texts, in characters. The API refuses a report with longer ones.
const (
	VersionLimit         = 64
	StepLimit            = 128
	MessageLimit         = 512
	OperatingSystemLimit = 128
	KernelLimit          = 128
)

const (
	mostLeftovers   = 11
	longestLeftover = 256
	mostVersions    = 32
)

// Cut shortens s to limit bytes, which are as many characters or fewer.
func Cut(s string, limit int) string { return s[:min(len(s), limit)] }

// Leftovers returns what a report has room for. The last one counts the others.
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

// Versions returns the first versions, as many as a report has room for.
func Versions(all []string) []string {
	cut := slices.DeleteFunc(slices.Clone(all), func(v string) bool { return len(v) > VersionLimit })
	return cut[:min(len(cut), mostVersions)]
}
