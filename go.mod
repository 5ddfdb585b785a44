module github.com/pawlock/pawl

go 1.26.0
