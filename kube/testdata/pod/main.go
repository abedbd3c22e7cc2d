// Command pod is what runs in the pods of tests on real Nodes: it does what its arguments say, one after the other.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	for _, arg := range os.Args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		if err := do(name, value); err != nil {
			fmt.Fprintln(os.Stderr, name+":", err)
			os.Exit(1)
		}
	}
}

func do(name, value string) error {
	switch name {
	case "say":
		fmt.Println(value)
	case "exit":
		os.Exit(len(value)) // exit=xxx is code 3
	case "hostname":
		host, err := os.Hostname()
		fmt.Println(host)
		return err
	case "env":
		fmt.Println(os.Getenv(value))
	case "fail": // the next run does not fail
		if _, err := os.Stat(value); err == nil {
			return nil
		}
		if err := os.WriteFile(value, nil, 0o600); err != nil {
			return err
		}
		os.Exit(4)
	case "input":
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			fmt.Println("got " + in.Text())
		}
		fmt.Println("input ended")
	case "flood":
		return flood(value)
	case "burn":
		for {
		}
	case "wait":
		time.Sleep(time.Hour)
	case "pause":
		d, err := time.ParseDuration(value)
		time.Sleep(d)
		return err
	case "term": // writes a file at SIGTERM
		c := make(chan os.Signal, 1)
		signal.Notify(c, unix.SIGTERM)
		<-c
		return os.WriteFile(value, []byte("terminated\n"), 0o600)
	case "id":
		groups, err := os.Getgroups()
		fmt.Println("id", os.Getuid(), os.Getgid(), groups)
		return err
	case "processes":
		return processes()
	case "get":
		return get(value)
	case "ask":
		server, host, _ := strings.Cut(value, ",")
		return ask(server, host)
	default:
		if known, err := files(name, value); known {
			return err
		}
		return serve(name, value)
	}
	return nil
}

// files executes the arguments that concern files.
func files(name, value string) (known bool, err error) {
	path, text, _ := strings.Cut(value, ":")
	switch name {
	case "cat":
		data, err := os.ReadFile(value)
		fmt.Println(strings.TrimSuffix(string(data), "\n"))
		return true, err
	case "grep": // prints the lines that contain a text
		data, err := os.ReadFile(path)
		for line := range strings.Lines(string(data)) {
			if strings.Contains(line, text) {
				fmt.Println(strings.Join(strings.Fields(line), " "))
			}
		}
		return true, err
	case "write":
		return true, os.WriteFile(path, []byte(text+"\n"), 0o644)
	case "append":
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return true, err
		}
		defer f.Close()
		_, err = f.WriteString(text + "\n")
		return true, err
	case "refused": // prints why the file can't be written
		err := os.WriteFile(value, nil, 0o644)
		fmt.Println("refused", value, unix.ErrnoName(errno(err)))
		return true, nil
	case "exists":
		_, err := os.Stat(value)
		return true, err
	case "remove":
		return true, os.Remove(value)
	case "stat":
		info, err := os.Stat(value)
		if err != nil {
			return true, err
		}
		owner := info.Sys().(*syscall.Stat_t)
		fmt.Printf("stat %s %v %d:%d\n", value, info.Mode(), owner.Uid, owner.Gid)
		return true, nil
	case "fs":
		var st unix.Statfs_t
		if err := unix.Statfs(value, &st); err != nil {
			return true, err
		}
		fmt.Println("tmpfs", value, st.Type == unix.TMPFS_MAGIC, st.Blocks*uint64(st.Bsize)>>20, "MiB")
		return true, nil
	case "list":
		entries, err := os.ReadDir(value)
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), "..") { // internal files of volumes
				fmt.Println("list", e.Name(), e.Type()&fs.ModeSymlink != 0)
			}
		}
		return true, err
	}
	return false, nil
}

func errno(err error) syscall.Errno {
	if path, is := err.(*os.PathError); is {
		if number, is := path.Err.(syscall.Errno); is {
			return number
		}
	}
	return 0
}

// serve listens and answers requests: healthy while the named file exists, or always if there is no name.
func serve(name, value string) error {
	address, file, _ := strings.Cut(value, ",")
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	switch name {
	case "tcp":
		for {
			conn, err := listener.Accept()
			if err != nil {
				return err
			}
			fmt.Fprintln(conn, "answer")
			conn.Close()
		}
	case "http":
		return http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := os.Stat(file); file != "" && err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			if r.URL.Path == "/hostname" {
				host, _ := os.Hostname()
				fmt.Fprintln(w, host)
				return
			}
			if r.URL.Path == "/hook" {
				os.WriteFile(r.URL.Query().Get("file"), []byte("hook\n"), 0o600)
			}
			fmt.Fprintln(w, "answer")
		}))
	case "grpc":
		server := grpc.NewServer()
		grpc_health_v1.RegisterHealthServer(server, health.NewServer())
		return server.Serve(listener)
	}
	return fmt.Errorf("unknown")
}

// ask prints the addresses that a name server has for a name.
func ask(server, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(server, "53"))
	}}
	addresses, err := resolver.LookupHost(ctx, name)
	fmt.Println(strings.Join(addresses, " "))
	return err
}

// get prints what is at a URL.
func get(url string) error {
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}

// flood prints 10 MB a second without end, and writes into a file how many MB it has printed.
func flood(file string) error {
	line := strings.Repeat("x", 999) + "\n"
	for written := 0; ; written++ {
		for range 10 {
			if _, err := io.WriteString(os.Stdout, strings.Repeat(line, 100)); err != nil {
				return err
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err := os.WriteFile(file, []byte(fmt.Sprint(written+1)), 0o600); err != nil {
			return err
		}
	}
}

// processes prints the command lines of the processes that /proc shows.
func processes() error {
	entries, err := os.ReadDir("/proc")
	for _, e := range entries {
		if line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline"); err == nil && e.Name()[0] <= '9' {
			fmt.Println("process", e.Name(), strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " ")))
		}
	}
	return err
}
