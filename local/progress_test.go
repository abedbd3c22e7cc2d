package local

import (
	"errors"
	"io"
	"slices"
	"testing"
)

func TestStepSendsItsEvents(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		last EventKind
	}{
		"a step that works": {nil, StepDone},
		"a step that fails": {io.EOF, StepFailed},
	} {
		t.Run(name, func(t *testing.T) {
			var got []Event
			p := Progress(func(e Event) { got = append(got, e) })
			p.note("it begins")
			err := p.step("hosts", func(waiting func(string)) error {
				waiting("1 of 2")
				waiting("1 of 2")
				waiting("2 of 2")
				return c.err
			})
			if !errors.Is(err, c.err) {
				t.Errorf("error %v, want %v", err, c.err)
			}
			want := []Event{
				{Note, "", "it begins"}, {StepStarted, "hosts", ""}, {StepWaiting, "hosts", "1 of 2"},
				{StepWaiting, "hosts", "2 of 2"}, {c.last, "hosts", ""},
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestNobodyNeedListen(t *testing.T) {
	var p Progress
	p.note("it begins")
	err := p.step("hosts", func(waiting func(string)) error { waiting("1 of 2"); return io.EOF })
	if !errors.Is(err, io.EOF) {
		t.Errorf("without a receiver, the step returned error %v", err)
	}
}
