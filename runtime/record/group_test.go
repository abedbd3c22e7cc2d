package record

import (
	"errors"
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

func TestOf(t *testing.T) {
	call := func(namespace, name string) Call { return Call{Object: Object{Namespace: namespace, Name: name}} }
	all := []Call{call("a", "blue"), call("b", "blue"), call("a", "green")}
	for name, c := range map[string]struct {
		namespace, name string
		want            int
	}{
		"one of a namespace":         {"a", "blue", 1},
		"one without calls":          {"b", "green", 0},
		"all, of whatever namespace": {"a", "", 3},
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
