package record

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestBlocks(t *testing.T) {
	const before, after, patches = "g/v1/BeforeClusterUpgrade", "g/v1/AfterControlPlaneUpgrade", "g/v1/GeneratePatches"
	start := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	type step struct {
		hook, object, handler string
		answer                Answer
	}
	for name, c := range map[string]struct {
		steps []step
		want  string // object/handler, the minute in which the block began, number of calls
	}{
		"no calls":                            {nil, ""},
		"the handler lets the object through": {[]step{{before, "blue", "a", Success}}, ""},
		"the handler blocks":                  {[]step{{before, "blue", "a", Blocked}}, "blue/a 0 1"},
		"the handler blocks several times, then fails": {
			[]step{{before, "blue", "a", Success}, {before, "blue", "a", Blocked}, {before, "blue", "a", Blocked},
				{before, "blue", "a", Failure}}, "blue/a 1 3",
		},
		"the handler blocks, then lets the object through": {
			[]step{{before, "blue", "a", Blocked}, {before, "blue", "a", Success}}, "",
		},
		"an ignored failure holds nothing back": {[]step{{before, "blue", "a", Ignored}}, ""},
		"one of two handlers blocks": {[]step{{before, "blue", "a", Success}, {before, "blue", "b", Blocked}},
			"blue/b 1 1"},
		"a handler blocks two objects": {[]step{{before, "blue", "a", Blocked}, {before, "green", "a", Blocked}},
			"blue/a 0 1, green/a 1 1"},
		"the object has reached the next lifecycle hook": {
			[]step{{before, "blue", "a", Blocked}, {after, "blue", "b", Success}}, "",
		},
		"another object has reached the next lifecycle hook": {
			[]step{{before, "blue", "a", Blocked}, {after, "green", "b", Success}},
			"blue/a 0 1",
		},
		"calls of other hooks neither begin nor end a block": {
			[]step{{before, "blue", "a", Blocked}, {patches, "blue", "p", Failure}},
			"blue/a 0 1",
		},
		"an administrator has let the object through": {
			[]step{{before, "blue", "a", Blocked}, {before, "blue", "a", Passed}}, "",
		},
		"a cancelled call neither begins nor ends a block": {
			[]step{{before, "blue", "a", Blocked}, {before, "blue", "a", Canceled}},
			"blue/a 0 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var calls []Call
			for i, s := range c.steps {
				calls = append(calls, Call{
					Time: start.Add(time.Duration(i) * time.Minute), Hook: s.hook, Object: Object{Name: s.object}, Extension: "x",
					Handler: s.handler, Answer: s.answer,
				})
			}
			var got []string
			for _, b := range Blocks(calls) {
				got = append(got, fmt.Sprintf("%s/%s %d %d", b.Call.Object.Name, b.Call.Handler,
					int(b.Since.Sub(start).Minutes()), b.Calls))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}

// A block begins once and ends once, however many calls there are.
func TestChanges(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	tracker := NewTracker([]Call{
		{Time: start, Hook: "g/v1/BeforeClusterUpgrade", Object: Object{Name: "old"}, Handler: "a", Answer: Blocked},
	})
	for i, c := range []struct{ hook, object, handler, answer, want string }{
		{"BeforeClusterUpgrade", "old", "a", "Blocked", ""}, // it had begun before
		{"BeforeClusterUpgrade", "blue", "a", "Blocked", "begins blue/a"},
		{"BeforeClusterUpgrade", "blue", "a", "Failure", ""},
		{"BeforeClusterUpgrade", "blue", "b", "Blocked", "begins blue/b"},
		{"BeforeClusterUpgrade", "blue", "a", "Passed", "ends blue/a after 2"},
		{"BeforeClusterUpgrade", "blue", "a", "Success", ""},
		{"BeforeClusterDelete", "blue", "c", "Blocked", "ends blue/b after 1, begins blue/c"},
		{"GeneratePatches", "blue", "c", "Failure", ""},
		{"BeforeClusterDelete", "blue", "c", "Success", "ends blue/c after 1"},
	} {
		var got []string
		for _, change := range tracker.Add(Call{
			Time: start.Add(time.Duration(i+1) * time.Minute), Hook: "g/v1/" + c.hook, Object: Object{Name: c.object},
			Handler: c.handler, Answer: Answer(c.answer),
		}) {
			about := change.Block.Call.Object.Name + "/" + change.Block.Call.Handler
			if change.Ended == nil {
				got = append(got, "begins "+about)
			} else {
				got = append(got, fmt.Sprintf("ends %s after %d", about, change.Block.Calls))
			}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("call %d: got %q, want %q", i, text, c.want)
		}
	}
	old := Object{Name: "old"}
	if !tracker.Holds(old, "g/v1/BeforeClusterUpgrade") || tracker.Holds(old, "g/v1/BeforeClusterDelete") ||
		tracker.Holds(Object{Name: "blue"}, "g/v1/BeforeClusterDelete") {
		t.Error("Holds is wrong about the hooks at which objects are held back")
	}
	if blocks := tracker.Blocks(); len(blocks) != 1 || blocks[0].Call.Object.Name != "old" || blocks[0].Calls != 2 ||
		!blocks[0].Since.Equal(start) {
		t.Errorf("the remaining blocks are %+v", blocks)
	}
	tracker.Forget(Object{Name: "old"})
	if blocks := tracker.Blocks(); len(blocks) != 0 {
		t.Errorf("the blocks of a deleted object are %+v", blocks)
	}
}
