package describe

import (
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Write writes a tree with state, reason and message, for people.
func Write(w io.Writer, root *Node) error {
	rows := [][]string{{"NAME", "READY", "REASON", "MESSAGE"}}
	for _, l := range lines(root) {
		rows = append(rows, []string{l.lead + l.node.Name, l.node.State, l.node.Reason, l.node.Message})
	}
	return align(w, rows)
}

// WriteWide writes a tree with clusterctl's columns: counts, ages, complete messages and more conditions. Ages are
// relative to now.
func WriteWide(w io.Writer, root *Node, now time.Time) error {
	rows := [][]string{{"NAME", "REPLICAS", "AVAILABLE", "READY", "UP TO DATE", "STATUS", "REASON", "SINCE", "MESSAGE"}}
	add := func(stem, message string, cells ...string) {
		for i, line := range strings.Split(message, "\n") {
			if i > 0 {
				cells = []string{stem, "", "", "", "", "", "", ""}
			}
			rows = append(rows, append(cells, line))
		}
	}
	for _, l := range lines(root) {
		n, r := l.node, l.node.Replicas
		add(l.stem, n.Message,
			l.lead+n.Name, r.All, r.Available, r.Ready, r.UpToDate, n.State, n.Reason, since(n.Since, now))
		for _, c := range n.Conditions {
			add(l.stem, strings.TrimSpace(c.Message),
				l.stem+"  "+c.Type, "", "", "", "", string(c.Status), c.Reason, since(c.LastTransitionTime.Time, now))
		}
	}
	return align(w, rows)
}

// since returns an age in kubectl's format.
func since(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(t))
}

// line is one node of a tree with the branches drawn before it.
type line struct {
	node *Node
	lead string // the branches before the name
	stem string // the branches before further lines of the same node
}

// lines flattens a tree from the top.
func lines(root *Node) []line {
	var found []line
	var walk func(n *Node, lead, branch string)
	walk = func(n *Node, lead, branch string) {
		below := lead
		switch branch {
		case "├─":
			below += "│ "
		case "└─":
			below += "  "
		}
		stem := below
		if len(n.Children) > 0 {
			stem += "│"
		}
		found = append(found, line{n, lead + branch, stem})
		for i, child := range n.Children {
			branch := "├─"
			if i == len(n.Children)-1 {
				branch = "└─"
			}
			walk(child, below, branch)
		}
	}
	walk(root, "", "")
	return found
}

// align writes rows of equal length in columns two spaces apart, without trailing spaces.
func align(w io.Writer, rows [][]string) error {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	var out strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell + strings.Repeat(" ", widths[i]-len([]rune(cell))+2))
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}
