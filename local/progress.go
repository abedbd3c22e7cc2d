package local

// EventKind says what an Event is about.
type EventKind string

// The kinds of events. Steps follow each other: a step has Started, then any number of Waiting, then Done or Failed.
const (
	StepStarted EventKind = "Started"
	StepWaiting EventKind = "Waiting"
	StepDone    EventKind = "Done"
	StepFailed  EventKind = "Failed"
	// Note is a sentence for the user, outside of all steps.
	Note EventKind = "Note"
)

// Event is progress of a long operation.
type Event struct {
	Kind EventKind
	// Step names the step; empty in a Note.
	Step string
	// Text says what the step waits for now, or is the sentence of a Note.
	Text string
}

// Progress receives the events of one operation in their order, from one goroutine at a time. Nil receives nothing.
type Progress func(Event)

// note sends a sentence.
func (p Progress) note(text string) {
	if p != nil {
		p(Event{Kind: Note, Text: text})
	}
}

// step runs one step: it sends the start, calls do, and sends the outcome. do may say what it waits for; the same
// words twice in a row are sent once. The error of do is returned unchanged.
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
