// Package record keeps a journal of calls to handlers: one line of JSON for each call, in files of bounded size.
//
// [Open] returns a [Journal] to append to. [Read] returns a journal's calls, oldest first, even while another process
// appends to it. A crash in the middle of a line loses only that line.
package record

import (
	"encoding/json"
	"errors"
	"time"
)

// Answer sums up how a call ended.
type Answer string

// Answers.
const (
	// Success: the handler answered Success and does not block.
	Success Answer = "Success"
	// Blocked: the handler answered Success with retryAfterSeconds; it is called again.
	Blocked Answer = "Blocked"
	// Failure: the handler answered Failure, or the call failed and its failure policy is Fail.
	Failure Answer = "Failure"
	// Ignored: the call failed, and its failure policy is Ignore.
	Ignored Answer = "Ignored"
	// Canceled: the call was cancelled before its answer, because another handler of the same hook had failed.
	Canceled Answer = "Canceled"
	// Passed: the handler blocked or failed, and an administrator let the object through nevertheless.
	Passed Answer = "Passed"
)

// Object names the object that a hook was called for.
type Object struct {
	// Kind, for example Cluster.
	Kind string `json:"kind,omitempty"`
	// Namespace is empty for a cluster-scoped object.
	Namespace string `json:"namespace,omitempty"`
	// Name of the object.
	Name string `json:"name"`
}

// Call is one call to one handler.
type Call struct {
	// Time is when the call started.
	Time time.Time
	// Hook is group/version/Name of the hook in the version that the handler serves.
	Hook string
	// Extension is the name of the ExtensionConfig.
	Extension string
	// Handler is the name of the handler on the extension's server.
	Handler string
	// Object that the hook was called for.
	Object Object
	// Answer sums up how the call ended.
	Answer Answer
	// RetryAfter is the wait that a blocking handler named; 0 if it does not block.
	RetryAfter time.Duration
	// Message of the answer.
	Message string
	// Duration of the call.
	Duration time.Duration
	// Err is why the call failed; nil if the handler answered Success. After [Read] it contains only the text.
	Err error
	// NotAsked is true if the call was not made because the last ones to the same extension failed.
	NotAsked bool
	// PassedBy says who let the object through, and why; empty if the answer is not [Passed].
	PassedBy string
}

// line is a Call as written to the file. Field names are part of the file format: add fields, but don't rename them.
type line struct {
	Time              time.Time `json:"time"`
	Hook              string    `json:"hook"`
	Extension         string    `json:"extension"`
	Handler           string    `json:"handler"`
	Object            Object    `json:"object"`
	Answer            Answer    `json:"answer"`
	RetryAfterSeconds float64   `json:"retryAfterSeconds,omitempty"`
	Message           string    `json:"message,omitempty"`
	DurationSeconds   float64   `json:"durationSeconds"`
	Error             string    `json:"error,omitempty"`
	NotAsked          bool      `json:"notAsked,omitempty"`
	PassedBy          string    `json:"passedBy,omitempty"`
}

// MarshalJSON writes durations in seconds and the error as a string.
func (c Call) MarshalJSON() ([]byte, error) {
	l := line{
		Time: c.Time, Hook: c.Hook, Extension: c.Extension, Handler: c.Handler, Object: c.Object, Answer: c.Answer,
		RetryAfterSeconds: c.RetryAfter.Seconds(), Message: c.Message, DurationSeconds: c.Duration.Seconds(),
		NotAsked: c.NotAsked, PassedBy: c.PassedBy,
	}
	if c.Err != nil {
		l.Error = c.Err.Error()
	}
	return json.Marshal(l)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Call) UnmarshalJSON(data []byte) error {
	var l line
	if err := json.Unmarshal(data, &l); err != nil {
		return err
	}
	*c = Call{
		Time: l.Time, Hook: l.Hook, Extension: l.Extension, Handler: l.Handler, Object: l.Object, Answer: l.Answer,
		RetryAfter: seconds(l.RetryAfterSeconds), Message: l.Message, Duration: seconds(l.DurationSeconds),
		NotAsked: l.NotAsked, PassedBy: l.PassedBy,
	}
	if l.Error != "" {
		c.Err = errors.New(l.Error)
	}
	return nil
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Microsecond)
}
