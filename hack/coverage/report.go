package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// write writes the report: the description of the run, then a line for each row. The columns are separated by tabs.
func write(out io.Writer, where run, results []result, sites map[string][]string, faults map[string]string) error {
	var b strings.Builder
	for _, line := range where.lines() {
		fmt.Fprintf(&b, "# %s\n", line)
	}
	fmt.Fprintln(&b, "id\tlevel\tof\tcontract\tverdict\tfault\twhere\ttests or reason")
	for _, r := range results {
		detail := strings.Join(r.tests, " ")
		if r.state == reason {
			detail = r.reason
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			r.id, r.level, r.of, dash(r.version), r.state, dash(faults[r.id]),
			dash(strings.Join(sites[r.id], " ")), dash(detail))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// summary prints a line for each family.
func summary(out io.Writer, results []result) error {
	count := map[string]map[state]int{}
	var order []string
	for _, r := range results {
		family := r.id[:strings.LastIndex(r.id, "-")]
		if count[family] == nil {
			count[family] = map[state]int{}
			order = append(order, family)
		}
		count[family][r.state]++
	}
	columns := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(columns, "RULES\tASSERTED\tFAILED\tWITH A REASON\tMISSING")
	for _, family := range order {
		c := count[family]
		fmt.Fprintf(columns, "%s\t%d\t%d\t%d\t%d\n", family, c[passed], c[failed], c[reason], c[missing])
	}
	return columns.Flush()
}
