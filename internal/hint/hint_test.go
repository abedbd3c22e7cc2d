package hint

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

// missing is an error of another package that carries advice by itself.
type missing struct{}

func (missing) Error() string { return "it is missing" }
func (missing) Hint() string  { return "make it" }

func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no error":                   {nil, ""},
		"an error without advice":    {io.EOF, ""},
		"an error with advice":       {Errorf("try again", "it broke"), "try again"},
		"advice below another error": {fmt.Errorf("starting: %w", Errorf("try again", "it broke")), "try again"},
		"the outermost advice":       {Errorf("outer", "starting: %w", Errorf("inner", "it broke")), "outer"},
		"a type of another package":  {fmt.Errorf("starting: %w", missing{}), "make it"},
		"one of several errors":      {errors.Join(io.EOF, Errorf("try again", "it broke")), "try again"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Of(c.err); got != c.want {
				t.Errorf("the advice of %v is %q, want %q", c.err, got, c.want)
			}
		})
	}
}

func TestErrorfKeepsTheError(t *testing.T) {
	err := Errorf("try again", "reading %s: %w", "a file", io.EOF)
	if err.Error() != "reading a file: EOF" || !errors.Is(err, io.EOF) {
		t.Errorf("the error is %q, or does not wrap its cause", err)
	}
}
