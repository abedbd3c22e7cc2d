package unblock

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Annotation holds the permission: an [Order] in JSON.
	Annotation = "runtime.capstan.dev/unblock"
	// MaxDuration is the longest time for which a permission may be valid.
	MaxDuration = time.Hour

	maxText = 500
)

// Order is a permission to let an object through a hook.
type Order struct {
	// Hook is the name of the hook, for example BeforeClusterUpgrade. Required.
	Hook string `json:"hook"`
	// Extension is the name of the ExtensionConfig whose handlers are overridden; empty: all that hold the object back.
	Extension string `json:"extension,omitempty"`
	// By is who grants the permission, Reason is why; at most 500 bytes each. Required.
	By     string `json:"by"`
	Reason string `json:"reason"`
	// Until is when the permission expires. It is invalid if that is more than an hour ahead. Required.
	Until time.Time `json:"until"`
	// Generation of the object that the permission is for. If the object's spec changes, a new permission is needed.
	Generation int64 `json:"generation"`
}

// Check returns what is missing or wrong; nil if nothing is.
func (o *Order) Check() error {
	switch {
	case o.Hook == "":
		return errors.New("it names no hook")
	case o.By == "" || o.Reason == "":
		return errors.New("it does not say who grants it and why")
	case len(o.By) > maxText || len(o.Reason) > maxText:
		return fmt.Errorf("who grants it and why may have %d bytes each", maxText)
	case o.Until.IsZero():
		return errors.New("it does not say until when it is valid")
	}
	return nil
}

// Read returns the permission on an object; nil if there is none.
func Read(object client.Object) (*Order, error) {
	text, there := object.GetAnnotations()[Annotation]
	if !there {
		return nil, nil
	}
	o := &Order{}
	err := json.Unmarshal([]byte(text), o)
	if err == nil {
		err = o.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("reading annotation %s (capstan hook unblock writes it): %w", Annotation, err)
	}
	return o, nil
}

// counts returns why a permission is not valid for an object at a hook; empty if it is.
func (o *Order) counts(object client.Object, hook string, now time.Time) string {
	switch {
	case o.Hook != hook:
		return "it is for hook " + o.Hook
	case !now.Before(o.Until):
		return "it has expired"
	case o.Until.Sub(now) > MaxDuration:
		return fmt.Sprintf("it is valid for longer than %s", MaxDuration)
	case o.Generation != object.GetGeneration():
		return "the object has changed since"
	}
	return ""
}
