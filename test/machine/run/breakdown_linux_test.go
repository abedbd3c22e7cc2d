package run

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// slow is the minimum duration for a line in the breakdown.
const slow = 500 * time.Millisecond

// entry is a line of an agent's journal, the file in which the agent records its steps.
type entry struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"`
	Step  string    `json:"step"`
	Key   string    `json:"key"`
}

// breakdown logs how the machines spent the time until they became Nodes: the steps in each agent's journal, and what
// the Machines and Nodes waited for.
func (w *world) breakdown() {
	w.Helper()
	for _, m := range w.machines {
		var before entry
		for line := range strings.Lines(w.on(m, "cat /var/lib/capstan/journal/*/steps.jsonl")) {
			var now entry
			if err := json.Unmarshal([]byte(line), &now); err != nil {
				w.Fatalf("the journal of %s has the line %q: %v", m.Name, line, err)
			}
			if took := now.Time.Sub(before.Time); before.Event != "" && took > slow {
				w.Logf("%6.1fs  %s: %s took %.1f s", w.since(now.Time), m.Name, name(before, now), took.Seconds())
			}
			before = now
		}
		w.Logf("%6.1fs  %s: the journal ends with %s", w.since(before.Time), m.Name, before.Event)
	}
	w.conditions("kubectl", "get", "machines,capstanmachines", "-o", "json")
	w.conditions("kubectl", "--cluster", "rack", "get", "nodes,pods", "-A", "-o", "json")
}

// conditions logs when objects were created, and when their conditions last changed.
func (w *world) conditions(args ...string) {
	w.Helper()
	var list struct {
		Items []struct {
			Kind     string
			Metadata struct {
				Name              string
				CreationTimestamp time.Time
			}
			Status struct {
				Conditions []struct {
					Type, Status       string
					LastTransitionTime time.Time
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(w.run(args...)), &list); err != nil {
		w.Fatal(err)
	}
	for _, o := range list.Items {
		times := []string{fmt.Sprintf("created at %.0f s", w.since(o.Metadata.CreationTimestamp))}
		for _, c := range o.Status.Conditions {
			if c.Status == "True" {
				times = append(times, fmt.Sprintf("%s %.0f", c.Type, w.since(c.LastTransitionTime)))
			}
		}
		w.Logf("%s %s: %s", o.Kind, o.Metadata.Name, strings.Join(times, ", "))
	}
}

// name names the step between two lines of a journal.
func name(before, now entry) string {
	if before.Event == "start" {
		return before.Step
	}
	return before.Event + " " + before.Key + before.Step + " to " + now.Event + " " + now.Key + now.Step
}

// since returns the seconds since the start of the test.
func (w *world) since(at time.Time) float64 { return at.Sub(w.began).Seconds() }
