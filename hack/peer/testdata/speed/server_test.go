package speed

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/runtime/internal/testtls"
)

// certificates is the environment variable that makes the test binary a server. It names the certificate's directory.
const certificates = "SPEED_SERVER_CERTIFICATES"

// slow is how long handlers with that name take.
const slow = 20 * time.Millisecond

func TestMain(m *testing.M) {
	if directory := os.Getenv(certificates); directory != "" {
		if err := serve(directory); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

const success = `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"BeforeClusterCreateResponse","status":"Success","message":"go","retryAfterSeconds":0}`

// serve answers every call with Success until standard input ends.
func serve(directory string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("https://" + listener.Addr().String())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if strings.HasSuffix(r.URL.Path, "/slow") {
			time.Sleep(slow)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, success)
	})
	s := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	return s.ServeTLS(listener, filepath.Join(directory, "tls.crt"), filepath.Join(directory, "tls.key"))
}

// start starts the server and returns its URL.
func start(t *testing.T, ca *testtls.Authority) string {
	t.Helper()
	directory := t.TempDir()
	ca.Write(t, directory, nil)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), certificates+"="+directory)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the server did not start: %v", err)
	}
	return strings.TrimSpace(line)
}
