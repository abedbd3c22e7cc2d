// Package hack has the commands that build, generate and measure. Scripts that are not Go programs are tested here.
package hack
