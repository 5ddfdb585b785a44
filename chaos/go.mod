module github.com/pawlock/pawl/chaos

go 1.26.0

require github.com/anishathalye/porcupine v1.3.1

replace (
	github.com/pawlock/pawl => ..
	github.com/pawlock/pawl/redis/goredis => ../redis/goredis
)
