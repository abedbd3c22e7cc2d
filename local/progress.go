package local

// EventKind says what an Event is about.
type EventKind string

// The kinds of events. Steps run one after another: each sends one Started, any number of Waiting, then Done or Failed.
const (
	StepStarted EventKind = "Started"
	StepWaiting EventKind = "Waiting"
	StepDone    EventKind = "Done"
	StepFailed  EventKind = "Failed"
	// Note is a sentence for the user, outside any step.
	Note EventKind = "Note"
)

// Event reports progress of a long operation.
type Event struct {
	Kind EventKind
	// Step names the step; empty in a Note.
	Step string
	// Text says what the step is waiting for, or is the sentence of a Note.
	Text string
}

// Progress receives the events of one operation in order, from one goroutine at a time. It may be nil.
type Progress func(Event)

// note sends a Note.
func (p Progress) note(text string) {
	if p != nil {
		p(Event{Kind: Note, Text: text})
	}
}

// step runs one step: it sends the start, calls the function do, and sends the outcome. The function may report what it
// waits for; consecutive duplicates are sent once. step returns the function's error unchanged.
func (p Progress) step(name string, do func(waiting func(string)) error) error {
	if p == nil {
		p = func(Event) {}
	}
	p(Event{Kind: StepStarted, Step: name})
	last := ""
	err := do(func(text string) {
		if text != last {
			last = text
			p(Event{Kind: StepWaiting, Step: name, Text: text})
		}
	})
	if err != nil {
		p(Event{Kind: StepFailed, Step: name})
		return err
	}
	p(Event{Kind: StepDone, Step: name})
	return nil
}
