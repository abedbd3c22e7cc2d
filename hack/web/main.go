// Command web runs in pods of the demo and of end-to-end tests: "web serve" listens on port 80 and answers with its
// host name, "web get URL" prints the content of a URL, "web until URL" requests a URL until there is an answer, and
// "web wait" does nothing.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "serve":
		return http.ListenAndServe(":80", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			host, _ := os.Hostname()
			fmt.Fprintln(w, host)
		}))
	case len(args) == 2 && args[0] == "get":
		return get(args[1], 10*time.Second)
	case len(args) == 2 && args[0] == "until":
		return until(args[1])
	case len(args) == 1 && args[0] == "wait":
		time.Sleep(time.Hour)
		return nil
	}
	return fmt.Errorf("unknown arguments %q", args)
}

// get prints the content of a URL.
func get(url string, limit time.Duration) error {
	answer, err := (&http.Client{Timeout: limit}).Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(os.Stdout, io.LimitReader(answer.Body, 1<<20))
	return err
}

// until repeats a request until it succeeds, for at most two minutes.
func until(url string) error {
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if err := get(url, time.Second); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
