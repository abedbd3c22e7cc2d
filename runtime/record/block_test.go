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
		want  string // object/handler since the minute, number of calls
	}{
		"nobody was asked":                        {nil, ""},
		"it was let through":                      {[]step{{before, "blue", "a", Success}}, ""},
		"it blocks":                               {[]step{{before, "blue", "a", Blocked}}, "blue/a 0 1"},
		"it blocks for long, then fails":          {[]step{{before, "blue", "a", Success}, {before, "blue", "a", Blocked}, {before, "blue", "a", Blocked}, {before, "blue", "a", Failure}}, "blue/a 1 3"},
		"it has let through in the end":           {[]step{{before, "blue", "a", Blocked}, {before, "blue", "a", Success}}, ""},
		"a failure that is ignored holds nothing": {[]step{{before, "blue", "a", Ignored}}, ""},
		"one of two handlers blocks":              {[]step{{before, "blue", "a", Success}, {before, "blue", "b", Blocked}}, "blue/b 1 1"},
		"two block, of two objects":               {[]step{{before, "blue", "a", Blocked}, {before, "green", "a", Blocked}}, "blue/a 0 1, green/a 1 1"},
		"the next moment has come":                {[]step{{before, "blue", "a", Blocked}, {after, "blue", "b", Success}}, ""},
		"the next moment of another object":       {[]step{{before, "blue", "a", Blocked}, {after, "green", "b", Success}}, "blue/a 0 1"},
		"hooks that are no moments say nothing":   {[]step{{before, "blue", "a", Blocked}, {patches, "blue", "p", Failure}}, "blue/a 0 1"},
		"a call that was canceled says nothing":   {[]step{{before, "blue", "a", Blocked}, {before, "blue", "a", Canceled}}, "blue/a 0 1"},
	} {
		t.Run(name, func(t *testing.T) {
			var calls []Call
			for i, s := range c.steps {
				calls = append(calls, Call{
					Time: start.Add(time.Duration(i) * time.Minute), Hook: s.hook, Object: Object{Name: s.object}, Extension: "x", Handler: s.handler, Answer: s.answer,
				})
			}
			var got []string
			for _, b := range Blocks(calls) {
				got = append(got, fmt.Sprintf("%s/%s %d %d", b.Call.Object.Name, b.Call.Handler, int(b.Since.Sub(start).Minutes()), b.Calls))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}
