// Command pod runs in the pods of TestRun. "pod serve DIRECTORY" counts its starts in a file in DIRECTORY, and answers
// with its host's name and that number at port 8080. "pod get URL" prints the content of a URL, "pod lookup NAME"
// prints the addresses of a name, and "pod wait" does nothing.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pod:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return serve(args[1])
	case len(args) == 2 && args[0] == "get":
		answer, err := (&http.Client{Timeout: 10 * time.Second}).Get(args[1])
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		_, err = io.Copy(os.Stdout, io.LimitReader(answer.Body, 1<<20))
		return err
	case len(args) == 2 && args[0] == "lookup":
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		addresses, err := net.DefaultResolver.LookupHost(ctx, args[1])
		fmt.Println(strings.Join(addresses, " "))
		return err
	case len(args) == 1 && args[0] == "wait":
		time.Sleep(time.Hour)
		return nil
	}
	return fmt.Errorf("unknown arguments %q", args)
}

func serve(dir string) error {
	file, err := os.OpenFile(filepath.Join(dir, "starts"), os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.WriteString("x"); err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	fmt.Printf("%s serves, start %d\n", host, info.Size())
	return http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, host, info.Size())
	}))
}
