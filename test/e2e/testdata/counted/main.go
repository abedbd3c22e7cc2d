// Command counted runs in pods that must survive kills: "counted serve DIRECTORY" records its start in a file there,
// and serves its host's name at port 80. "counted get URL" prints the content of a URL, "counted wait" does nothing.
package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "counted:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		if err := count(args[1]); err != nil {
			return err
		}
		return http.ListenAndServe(":80", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			host, _ := os.Hostname()
			fmt.Fprintln(w, host)
		}))
	case len(args) == 2 && args[0] == "get":
		answer, err := (&http.Client{Timeout: 5 * time.Second}).Get(args[1])
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		_, err = io.Copy(os.Stdout, io.LimitReader(answer.Body, 1<<20))
		return err
	case len(args) == 1 && args[0] == "wait":
		time.Sleep(24 * time.Hour)
		return nil
	}
	return fmt.Errorf("unknown arguments %q", args)
}

// count adds a line to the file "starts": "start", or "twice" if another process has locked the directory. The process
// keeps the lock until it exits.
func count(dir string) error {
	lock, err := unix.Open(filepath.Join(dir, "lock"), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	line := "start\n"
	twice := unix.Flock(lock, unix.LOCK_EX|unix.LOCK_NB)
	if twice != nil {
		line = "twice\n"
	}
	starts, err := os.OpenFile(filepath.Join(dir, "starts"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer starts.Close()
	_, err = starts.WriteString(line)
	return errors.Join(err, twice)
}
