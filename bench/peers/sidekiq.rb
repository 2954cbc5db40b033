#!/usr/bin/env ruby
# bench/peers/sidekiq.rb: scheduled jobs of Sidekiq, the peer of bench/durable.c.
#
#     peer-sidekiq REDIS push|bulk|run COUNT
#     peer-sidekiq REDIS late RATE SECONDS
#
# push: schedules COUNT jobs, each by a call; bulk: 1,000 by a call; run: COUNT jobs are due, and are run; late: so many jobs a
# second, each due within a second.  One process with ten threads, as Sidekiq comes.
require "sidekiq"
require "sidekiq/launcher"

BULK = 1000
FAR = 100_000 # seconds
LOOK_FIRST = 16 # seconds: Sidekiq looks for due jobs for the first time within 10 to 15

url, mode, count, seconds = ARGV
count = Integer(count)
Redis.silence_deprecations = true # Debian's Redis library says of most calls of Debian's Sidekiq that they are old
Sidekiq.logger = Logger.new($stderr, level: Logger::WARN)
Sidekiq.configure_client { |config| config.redis = {url: url, size: 1} }

$done = Thread::Queue.new

class Job
  include Sidekiq::Worker

  # `due`: seconds since 1970.
  def perform(_name, due)
    $done << (Process.clock_gettime(Process::CLOCK_REALTIME) - due) * 1e6
  end
end

def clocks
  [Process::CLOCK_MONOTONIC, Process::CLOCK_PROCESS_CPUTIME_ID].map { |clock| Process.clock_gettime(clock, :nanosecond) }
end

def report(count)
  began = clocks
  yield
  elapsed, cpu = clocks.zip(began).map { |now, before| (now - before).to_f / count }
  puts "elapsed #{elapsed}", "cpu #{cpu}"
end

def name_of(number)
  format("session/%08d", number)
end

def schedule_bulk(count, at)
  (0...count).each_slice(BULK) do |numbers|
    Sidekiq::Client.push_bulk("class" => Job, "args" => numbers.map { |number| [name_of(number), at] }, "at" => at)
  end
end

def launch(url)
  Sidekiq.redis = {url: url, size: Sidekiq.options[:concurrency] + 5}
  launcher = Sidekiq::Launcher.new(Sidekiq.options.merge(queues: ["default"]))
  launcher.run
  launcher
end

def finish(launcher)
  launcher.quiet
  launcher.stop
end

case mode
when "push"
  report(count) { count.times { |number| Job.perform_in(FAR, name_of(number), 0) } }
when "bulk"
  report(count) { schedule_bulk(count, Time.now.to_f + FAR) }
when "run"
  schedule_bulk(count, Time.now.to_f - 1)
  launcher = nil
  report(count) do
    launcher = launch(url)
    Sidekiq::Scheduled::Enq.new.enqueue_jobs # at once: its own thread for that waits
    count.times { $done.pop }
  end
  finish(launcher)
when "late"
  launcher = launch(url)
  sleep LOOK_FIRST
  random = Random.new(1)
  total = count * Integer(seconds)
  late = nil
  report(total) do
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    total.times do |number|
      ahead = began + number.to_f / count - Process.clock_gettime(Process::CLOCK_MONOTONIC)
      sleep ahead if ahead > 0.001
      due = Process.clock_gettime(Process::CLOCK_REALTIME) + random.rand
      Job.perform_at(due, name_of(number), due)
    end
    late = Array.new(total) { $done.pop }.sort
  end
  puts "p50 #{late[total / 2]}", "p99 #{late[total * 99 / 100]}"
  finish(launcher)
end
