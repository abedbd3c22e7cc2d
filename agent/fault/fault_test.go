package fault

import (
	"errors"
	"fmt"
	"testing"
)

func TestTextShowsOnlyWhatMayBeShown(t *testing.T) {
	secret := errors.New("line 4: password=hunter2")
	cases := map[string]struct {
		err  error
		want string
	}{
		"an ordinary error is not shown":           {secret, "see the log"},
		"no error":                                 {nil, "see the log"},
		"the cause of a fault is not shown":        {New(secret, "file %d", 3), "file 3"},
		"a fault under an ordinary error is shown": {fmt.Errorf("token abc: %w", New(secret, "file 3")), "file 3"},
		"faults within faults are shown in a row":  {New(New(secret, "no such owner"), "file 3"), "file 3: no such owner"},
		"text between two faults isn't shown": {New(fmt.Errorf("hunter2: %w", New(nil, "no such owner")), "file 3"),
			"file 3: no such owner"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Text(c.err, "see the log"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestErrorHasTheCause(t *testing.T) {
	cause := errors.New("deep")
	err := New(cause, "shallow")
	if err.Error() != "shallow: deep" || !errors.Is(err, cause) {
		t.Errorf("got %q", err)
	}
}
