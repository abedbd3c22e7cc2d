package record

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRepeats(t *testing.T) {
	at := time.Unix(0, 0)
	call := func(hook string, answer Answer) Call {
		at = at.Add(time.Second)
		return Call{Time: at, Hook: hook, Extension: "e", Handler: "h", Object: Object{Name: "demo"}, Answer: answer}
	}
	runs := Repeats([]Call{
		call("g/v/BeforeClusterCreate", Blocked), call("g/v/BeforeClusterCreate", Blocked),
		call("g/v/BeforeClusterCreate", Success),
		call("g/v/AfterControlPlaneInitialized", Success), call("g/v/AfterControlPlaneInitialized", Success),
	})
	var got []string
	for _, r := range runs {
		got = append(got, r.Call.HookName()+" "+string(r.Call.Answer)+strings.Repeat("*", r.Times))
	}
	want := "BeforeClusterCreate Blocked**, BeforeClusterCreate Success*, AfterControlPlaneInitialized Success*, " +
		"AfterControlPlaneInitialized Success*"
	if strings.Join(got, ", ") != want {
		t.Errorf("runs %v, want %s", got, want)
	}
	if last := runs[0].Call.Time; !last.Equal(time.Unix(2, 0)) {
		t.Errorf("the run has the time %s, want that of its last call", last)
	}
}

// A hook with several handlers is called again and again because one of them blocks.
func TestRepeatsOfAHookWithSeveralHandlers(t *testing.T) {
	at := time.Unix(0, 0)
	var calls []Call
	round := func(hook string, answers ...Answer) {
		for i, answer := range answers {
			at = at.Add(time.Second)
			calls = append(calls, Call{
				Time: at, Hook: "g/v/" + hook, Extension: "e", Handler: string(rune('a' + i)), Answer: answer,
			})
		}
	}
	for range 3 {
		round("BeforeClusterUpgrade", Success, Blocked, Success)
	}
	round("BeforeClusterUpgrade", Success, Failure, Success)
	round("BeforeClusterUpgrade", Success, Success, Success)
	round("BeforeClusterUpgrade", Success, Success, Success) // another upgrade
	round("AfterClusterUpgrade", Success)
	round("BeforeClusterUpgrade", Success, Blocked, Success)
	var got []string
	for _, r := range Repeats(calls) {
		got = append(got, fmt.Sprintf("%s %s %d", r.Call.Handler, r.Call.Answer, r.Times))
	}
	want := "a Success 5, b Blocked 3, c Success 4, b Failure 1, b Success 1, c Success 1, " +
		"a Success 1, b Success 1, c Success 1, a Success 1, a Success 1, b Blocked 1, c Success 1"
	if strings.Join(got, ", ") != want {
		t.Errorf("runs %s\nwant %s", strings.Join(got, ", "), want)
	}
}

// Calls for one cluster come between calls for another. Calls that patch a cluster come between calls that hold it
// back.
func TestRepeatsAmongOtherCalls(t *testing.T) {
	const create, upgrade, patches, update = "BeforeClusterCreate", "BeforeClusterUpgrade", "GeneratePatches",
		"UpdateMachine"
	type call struct {
		object, hook string
		answer       Answer
		times        int
	}
	for name, c := range map[string]struct {
		rounds []call // the calls of a round; times says how often each is made
		again  int    // how often the rounds are repeated
		want   string
	}{
		"two clusters are held": {
			[]call{{"blue", create, Blocked, 1}, {"green", create, Blocked, 1}}, 30,
			"blue BeforeClusterCreate Blocked 30, green BeforeClusterCreate Blocked 30",
		},
		"a cluster is patched while it is held": {
			[]call{{"blue", patches, Success, 2}, {"blue", upgrade, Blocked, 1}}, 30,
			"blue GeneratePatches Success 2, blue BeforeClusterUpgrade Blocked 30, blue GeneratePatches Success 58",
		},
		"patches fail and succeed": {
			[]call{{"blue", patches, Success, 3}, {"blue", patches, Failure, 3}}, 2,
			"blue GeneratePatches Success 3, blue GeneratePatches Failure 3, blue GeneratePatches Success 3, " +
				"blue GeneratePatches Failure 3",
		},
		"a cluster at two hooks in turn": {
			[]call{{"blue", create, Blocked, 2}, {"blue", upgrade, Success, 1}}, 2,
			"blue BeforeClusterCreate Blocked 2, blue BeforeClusterUpgrade Success 1, " +
				"blue BeforeClusterCreate Blocked 2, blue BeforeClusterUpgrade Success 1",
		},
		"a machine is updated twice": {
			[]call{{"m", update, Blocked, 5}, {"m", update, Success, 1}}, 2,
			"m UpdateMachine Blocked 5, m UpdateMachine Success 1, m UpdateMachine Blocked 5, m UpdateMachine Success 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var calls []Call
			for range c.again {
				for _, one := range c.rounds {
					made := Call{Hook: "g/v/" + one.hook, Extension: "e", Handler: one.hook, Object: Object{Name: one.object},
						Answer: one.answer}
					calls = append(calls, slices.Repeat([]Call{made}, one.times)...)
				}
			}
			var got []string
			for _, r := range Repeats(calls) {
				got = append(got, fmt.Sprintf("%s %s %s %d", r.Call.Object.Name, r.Call.HookName(), r.Call.Answer, r.Times))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("runs %s\nwant %s", text, c.want)
			}
		})
	}
}

func TestOf(t *testing.T) {
	call := func(namespace, name string) Call { return Call{Object: Object{Namespace: namespace, Name: name}} }
	all := []Call{call("a", "blue"), call("b", "blue"), call("a", "green")}
	for name, c := range map[string]struct {
		namespace, name string
		want            int
	}{
		"a cluster in one of two namespaces": {"a", "blue", 1},
		"a cluster without calls":            {"b", "green", 0},
		"all clusters of all namespaces":     {"a", "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Of(all, c.namespace, c.name); len(got) != c.want || got == nil {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestWhy(t *testing.T) {
	if got := (Call{Message: "no hosts"}).Why(); got != "no hosts" {
		t.Errorf("an answer: %q", got)
	}
	if got := (Call{Message: "no hosts", Err: errors.New("no route")}).Why(); got != "no route" {
		t.Errorf("a call that failed: %q", got)
	}
}
