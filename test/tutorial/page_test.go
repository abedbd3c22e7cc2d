package tutorial

import (
	"reflect"
	"testing"
)

func TestBlocks(t *testing.T) {
	page := "a\n\n```sh test=build\nmake\n```\n\nb\n\n" +
		"```sh test=plane\ncapstan up\ncapstan down\n```\n\n```text\nno\n```\n"
	want := []block{{"build", "make\n"}, {"plane", "capstan up\ncapstan down\n"}}
	if got := blocks(page); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestScript(t *testing.T) {
	for commands, want := range map[string]string{
		"capstan up\n":                       "set -ex\ncapstan up\n",
		"go run . --listen 127.0.0.1:9443\n": "set -ex\ncd \"$QUOTA\"\nexec go run . --listen 127.0.0.1:9443\n",
	} {
		if got := script(block{commands: commands}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
