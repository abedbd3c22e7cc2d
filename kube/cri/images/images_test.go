package images

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// serve returns a store that answers with a status and a text.
func serve(t *testing.T, status int, text string) (store *Store, asked func() string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	questions := make(chan string, 1)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body json.RawMessage
		json.NewDecoder(r.Body).Decode(&body)
		questions <- r.Method + " " + r.URL.Path + " " + string(body)
		w.WriteHeader(status)
		w.Write([]byte(text))
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	store = New(socket, "/layers")
	t.Cleanup(store.Close)
	return store, func() string { return <-questions }
}

func TestQuestionsAndAnswers(t *testing.T) {
	ctx := t.Context()
	store, asked := serve(t, http.StatusOK, `{"id": "sha256:1", "names": ["a:1"], "size": 5, "layers": ["low", "high"],
		"config": {"architecture": "amd64", "config": {"User": "web", "Entrypoint": ["/x"], "Env": ["A=b"]}}}`)
	img, err := store.Status(ctx, "a:1")
	if err != nil {
		t.Fatal(err)
	}
	if got := asked(); got != `POST /v1/status {"image":"a:1"}` {
		t.Errorf("asked %s", got)
	}
	if img.ID != "sha256:1" || strings.Join(img.Layers, " ") != "/layers/low /layers/high" ||
		img.Config.Config.User != "web" ||
		img.Config.Config.Entrypoint[0] != "/x" {
		t.Errorf("got %+v", img)
	}
	if _, err := store.Pull(ctx, "a:1", &Auth{Username: "u", Password: "p"}); err != nil {
		t.Fatal(err)
	}
	if got := asked(); got != `POST /v1/pull {"image":"a:1","auth":{"username":"u","password":"p"}}` {
		t.Errorf("asked %s", got)
	}
	if err := store.Remove(ctx, "a:1"); err != nil || asked() != `POST /v1/remove {"image":"a:1"}` {
		t.Errorf("removal: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	ctx := t.Context()
	cases := map[string]struct {
		status int
		text   string
		want   string
		none   bool
	}{
		"a missing image": {
			404,
			`{"code":"NotFound","message":"there is no a:1","advice":"load it"}`,
			"there is no a:1: load it",
			true,
		},
		"a wrong secret":                {403, `{"code":"Denied","message":"denied"}`, "denied", false},
		"a refusal that is not JSON":    {500, `oops`, "500 Internal Server Error", false},
		"an answer that is not JSON":    {200, `[`, "reading the image store's answer", false},
		"a layer outside the directory": {200, `{"layers": ["../../etc"]}`, `names a layer "../../etc"`, false},
		"a layer with an absolute path": {200, `{"layers": ["/etc"]}`, `names a layer "/etc"`, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			store, _ := serve(t, c.status, c.text)
			_, err := store.Status(ctx, "a:1")
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrNotFound) != c.none {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if _, err := New(filepath.Join(t.TempDir(), "nobody"), "/layers").Status(ctx, "a:1"); err == nil ||
		!strings.Contains(err.Error(), "does the dock run?") {
		t.Errorf("without a store: %v", err)
	}
}
