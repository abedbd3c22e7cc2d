// Command program is what runs in the containers of tests: it does what its arguments say, one after the other.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Facts are what a program sees of itself.
type Facts struct {
	PID, UID, GID  int
	Groups         []int
	Dir, Host      string
	Env            []string
	Status         map[string]string // lines of /proc/self/status
	Namespaces     map[string]string
	Mounts         []string
	OpenFiles      int64 // soft limit
	OOMScoreAdj    string
	Links          map[string]string
	Terminal       bool
	Rows, Cols     uint16
	Processes      int // processes that /proc shows
	NetworkDevices []string
}

func main() {
	for _, arg := range os.Args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		if err := do(name, value); err != nil {
			fmt.Fprintln(os.Stderr, name+":", err)
			os.Exit(1)
		}
	}
}

// eaten is the memory that the program has allocated and keeps.
var eaten []byte

// bomb creates processes that wait forever, up to most, and returns how many it created.
func bomb(most int) (int, error) {
	for made := range most {
		pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if e != 0 {
			return made, e
		}
		for pid == 0 {
			unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
		}
	}
	return most, nil
}

func do(name, value string) error {
	switch name {
	case "facts":
		return json.NewEncoder(os.Stdout).Encode(facts())
	case "say":
		fmt.Println(value)
	case "complain":
		fmt.Fprintln(os.Stderr, value)
	case "exit":
		code, _ := strconv.Atoi(value)
		os.Exit(code)
	case "kill":
		n, _ := strconv.Atoi(value)
		unix.Kill(os.Getpid(), syscall.Signal(n))
		time.Sleep(time.Minute)
	case "term": // waits for SIGTERM
		c := make(chan os.Signal, 1)
		signal.Notify(c, unix.SIGTERM)
		fmt.Println("waiting")
		<-c
		fmt.Println("ending")
		os.Exit(7)
	case "ignore":
		signal.Ignore(unix.SIGTERM)
	case "wait":
		fmt.Println("waiting")
		time.Sleep(time.Hour)
	case "flood": // writes endlessly
		line := strings.Repeat("x", 1000)
		for {
			if _, err := fmt.Println(line); err != nil {
				return err
			}
		}
	case "eat": // allocates so many MiB of memory
		n, _ := strconv.Atoi(value)
		eaten = make([]byte, n<<20)
		for i := 0; i < len(eaten); i += 4096 {
			eaten[i] = 1
		}
		fmt.Println("ate", len(eaten)>>20)
	case "bomb": // creates copies of itself until it can't
		most, _ := strconv.Atoi(value)
		made, err := bomb(most)
		fmt.Println("bomb", made < most, errno(err))
	case "orphan": // starts a process that outlives this one
		cmd := exec.Command("/proc/self/exe", "wait")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return cmd.Start()
	case "leave": // starts a process that outlives this one and holds its output
		cmd := exec.Command("/proc/self/exe", "wait")
		cmd.Stdout, cmd.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setsid: true}
		return cmd.Start()
	case "echo":
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			fmt.Println("got " + in.Text())
		}
		fmt.Println("input ended")
	case "cat":
		data, err := os.ReadFile(value)
		fmt.Printf("%s", data)
		return err
	case "write":
		err := os.WriteFile(value, []byte("written"), 0o644)
		fmt.Println("write", value, errno(err))
	case "reopen": // opens standard output by its name
		file, err := os.OpenFile("/dev/stdout", os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = file.WriteString("reopened\n")
		return err
	case "list":
		entries, err := os.ReadDir(value)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		fmt.Println("list", value, strings.Join(names, ","), errno(err))
	case "listen": // answers on a port of the loopback interface
		listener, err := net.Listen("tcp", "127.0.0.1:"+value)
		if err != nil {
			return err
		}
		fmt.Println("listening")
		for {
			conn, err := listener.Accept()
			if err != nil {
				return err
			}
			fmt.Fprintln(conn, "answer")
			conn.Close()
		}
	case "mq": // opens a message queue
		name := []byte("queue\x00")
		_, _, e := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(&name[0])), unix.O_CREAT|unix.O_RDWR, 0o600,
			0, 0, 0)
		fmt.Println("mq", errno(e))
	case "call":
		fmt.Println("call", value, errno(call(value)))
	default:
		return fmt.Errorf("unknown")
	}
	return nil
}

// call makes one system call that a filter or a missing capability may forbid.
func call(name string) error {
	var e syscall.Errno
	switch name {
	case "mount":
		return unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "")
	case "unshare":
		return unix.Unshare(unix.CLONE_NEWUTS)
	case "userns":
		return unix.Unshare(unix.CLONE_NEWUSER)
	case "clone3":
		_, _, e = unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
	case "keyctl":
		_, _, e = unix.Syscall(unix.SYS_KEYCTL, 0, 0, 0)
	case "vsock":
		_, err := unix.Socket(40, unix.SOCK_STREAM, 0)
		return err
	case "chown":
		return os.Chown("/chowned", 1, 1)
	case "sethostname":
		return unix.Sethostname([]byte("other"))
	case "setuid":
		return syscall.Setuid(1)
	case "raw":
		_, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
		return err
	}
	if e == 0 {
		return nil
	}
	return e
}

func errno(err error) string {
	var e syscall.Errno
	switch err := err.(type) {
	case nil:
		return "ok"
	case syscall.Errno:
		if err == 0 {
			return "ok"
		}
		e = err
	case *os.PathError:
		return errno(err.Err)
	case *os.SyscallError:
		return errno(err.Err)
	default:
		return err.Error()
	}
	return unix.ErrnoName(e)
}

func facts() Facts {
	f := Facts{PID: os.Getpid(), UID: os.Getuid(), GID: os.Getgid(), Env: os.Environ(), Status: map[string]string{},
		Namespaces: map[string]string{}, Links: map[string]string{}}
	f.Groups, _ = os.Getgroups()
	slices.Sort(f.Groups)
	f.Dir, _ = os.Getwd()
	f.Host, _ = os.Hostname()
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		f.Status[key] = strings.TrimSpace(value)
	}
	for _, ns := range []string{"pid", "net", "ipc", "uts", "mnt", "user"} {
		f.Namespaces[ns], _ = os.Readlink("/proc/self/ns/" + ns)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		f.Mounts = append(f.Mounts, strings.Join(fields[4:], " "))
	}
	var limit unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	f.OpenFiles = int64(limit.Max)
	score, _ := os.ReadFile("/proc/self/oom_score_adj")
	f.OOMScoreAdj = strings.TrimSpace(string(score))
	for _, path := range []string{"/dev/ptmx", "/dev/fd", "/dev/stdout", "/proc/1/exe"} {
		f.Links[path], _ = os.Readlink(path)
	}
	if size, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ); err == nil {
		f.Terminal, f.Rows, f.Cols = true, size.Row, size.Col
	}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			f.Processes++
		}
	}
	devices, _ := os.ReadDir("/sys/class/net")
	for _, e := range devices {
		f.NetworkDevices = append(f.NetworkDevices, e.Name())
	}
	return f
}
